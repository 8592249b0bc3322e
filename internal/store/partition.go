package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// monthly lists the tables partitioned by month and whether their key is a date.
var monthly = []string{"command_record", "usage_day"}

// PartitionsAhead is how many months beyond the running one always have a partition (R1).
const PartitionsAhead = 3

// EnsurePartitions makes the missing monthly partitions from the month before at until
// PartitionsAhead months after it (UTC). It gives the names of those it made. A month whose rows
// have already landed in the default partition is left there and told by PartitionReport.
func (s *Store) EnsurePartitions(ctx context.Context, at time.Time) ([]string, error) {
	var made []string
	for _, table := range monthly {
		for i := -1; i <= PartitionsAhead; i++ {
			from := time.Date(at.UTC().Year(), at.UTC().Month()+time.Month(i), 1, 0, 0, 0, 0, time.UTC)
			name := partitionName(table, from)
			created, err := s.ensurePartition(ctx, table, name, from, from.AddDate(0, 1, 0))
			if err != nil {
				return made, fmt.Errorf("partition %s: %w", name, err)
			}
			if created {
				made = append(made, name)
			}
		}
	}
	return made, nil
}

func partitionName(table string, from time.Time) string {
	return fmt.Sprintf("%s_%04d_%02d", table, from.Year(), from.Month())
}

func (s *Store) ensurePartition(ctx context.Context, table, name string, from, to time.Time) (bool, error) {
	created := false
	err := s.InTx(ctx, func(tx *Tx) error {
		// One maker at a time: two nodes may start together.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('simwarden.partitions'))`); err != nil {
			return err
		}
		var exists, taken bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&exists); err != nil || exists {
			return err
		}
		column := map[string]string{"command_record": "ended_at", "usage_day": "day"}[table]
		probe := fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE %s >= $1 AND %s < $2)`,
			pgx.Identifier{table + "_default"}.Sanitize(), pgx.Identifier{column}.Sanitize(), pgx.Identifier{column}.Sanitize())
		if err := tx.QueryRow(ctx, probe, from, to).Scan(&taken); err != nil || taken {
			return err
		}
		_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`,
			pgx.Identifier{name}.Sanitize(), pgx.Identifier{table}.Sanitize(),
			from.Format("2006-01-02 15:04:05+00"), to.Format("2006-01-02 15:04:05+00")))
		created = err == nil
		return err
	})
	return created, err
}

// PartitionReport says, per partitioned table, how many whole months after at are ready, and how
// many rows lie in the default partition, where none should be.
type PartitionReport struct {
	Table       string `json:"table"`
	MonthsAhead int    `json:"months_ahead"`
	DefaultRows int64  `json:"default_rows"`
}

// Partitions reports on every partitioned table.
func (s *Store) Partitions(ctx context.Context, at time.Time) ([]PartitionReport, error) {
	var out []PartitionReport
	for _, table := range monthly {
		r := PartitionReport{Table: table}
		for i := 1; i <= 24; i++ {
			from := time.Date(at.UTC().Year(), at.UTC().Month()+time.Month(i), 1, 0, 0, 0, 0, time.UTC)
			var exists bool
			if err := s.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, partitionName(table, from)).Scan(&exists); err != nil {
				return nil, fmt.Errorf("partitions of %s: %w", table, err)
			}
			if !exists {
				break
			}
			r.MonthsAhead = i
		}
		count := fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %s LIMIT 1000000) AS counted`, pgx.Identifier{table + "_default"}.Sanitize())
		if err := s.pool.QueryRow(ctx, count).Scan(&r.DefaultRows); err != nil {
			return nil, fmt.Errorf("partitions of %s: %w", table, err)
		}
		out = append(out, r)
	}
	return out, nil
}
