package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// monthly lists the tables partitioned by month.
var monthly = []string{"command_record", "usage_day"}

// PartitionsAhead is how many months beyond the running one always have a partition (R1).
const PartitionsAhead = 3

// partitionMovesMost is how many rows are moved out of a default partition at a time: nobody can write to the
// table meanwhile.
const partitionMovesMost = 1_000_000

// EnsurePartitions makes the missing monthly partitions from the month before at until
// PartitionsAhead months after it (UTC), and of those whose rows have landed in the default partition,
// where they move on (F18). It gives the names of those it made. Where a month has too many rows to
// move at a time they are left there, which PartitionReport tells.
func (s *Store) EnsurePartitions(ctx context.Context, at time.Time) ([]string, error) {
	var made []string
	for _, table := range monthly {
		there, err := s.months(ctx, table)
		if err != nil {
			return made, err
		}
		for i := -1; i <= PartitionsAhead; i++ {
			from := time.Date(at.UTC().Year(), at.UTC().Month()+time.Month(i), 1, 0, 0, 0, 0, time.UTC)
			if slices.ContainsFunc(there, func(m month) bool { return m.from.Equal(from) }) {
				continue
			}
			if err := s.ensurePartition(ctx, table, from, &made); err != nil {
				return made, err
			}
		}
		stray, err := s.strayMonths(ctx, table)
		if err != nil {
			return made, err
		}
		for _, from := range stray {
			if err := s.ensurePartition(ctx, table, from, &made); err != nil {
				return made, err
			}
		}
	}
	return made, nil
}

// strayMonths are those of the first rows in a default partition, of any age.
func (s *Store) strayMonths(ctx context.Context, table string) ([]time.Time, error) {
	rows, err := s.pool.Query(ctx, fmt.Sprintf(`SELECT DISTINCT date_trunc('month', %s::timestamptz, 'UTC') FROM (SELECT * FROM %s LIMIT 100000) stray ORDER BY 1 LIMIT 24`,
		partitionColumn(table), pgx.Identifier{table + "_default"}.Sanitize()))
	if err != nil {
		return nil, fmt.Errorf("rows of %s outside any month: %w", table, err)
	}
	months, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return nil, fmt.Errorf("rows of %s outside any month: %w", table, err)
	}
	for i := range months {
		months[i] = months[i].UTC()
	}
	return months, nil
}

func partitionColumn(table string) string {
	return map[string]string{"command_record": "ended_at", "usage_day": "day"}[table]
}

func partitionName(table string, from time.Time) string {
	return fmt.Sprintf("%s_%04d_%02d", table, from.Year(), from.Month())
}

func (s *Store) ensurePartition(ctx context.Context, table string, from time.Time, made *[]string) error {
	name, created := partitionName(table, from), false
	to := from.AddDate(0, 1, 0)
	err := s.InTx(ctx, func(tx *Tx) error {
		created = false
		// One maker at a time: two nodes may start together.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('simwarden.partitions'))`); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&exists); err != nil || exists {
			return err
		}
		parent, part, rest := pgx.Identifier{table}.Sanitize(), pgx.Identifier{name}.Sanitize(), pgx.Identifier{table + "_default"}.Sanitize()
		inMonth := fmt.Sprintf(`%s >= '%s' AND %[1]s < '%[3]s'`, partitionColumn(table), bound(from), bound(to))
		var stray int
		if err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %s WHERE %s LIMIT %d) stray`, rest, inMonth, partitionMovesMost+1)).Scan(&stray); err != nil {
			return err
		}
		statements := []string{fmt.Sprintf(`CREATE TABLE %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`, part, parent, bound(from), bound(to))}
		switch {
		case stray > partitionMovesMost:
			return nil
		case stray > 0:
			statements = []string{
				fmt.Sprintf(`LOCK TABLE %s IN ACCESS EXCLUSIVE MODE`, parent),
				fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL)`, part, parent),
				fmt.Sprintf(`WITH moved AS (DELETE FROM %s WHERE %s RETURNING *) INSERT INTO %s SELECT * FROM moved`, rest, inMonth, part),
				fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`, parent, part, bound(from), bound(to)),
			}
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		created = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("partition %s: %w", name, err)
	}
	if created {
		*made = append(*made, name)
	}
	return nil
}

func bound(t time.Time) string { return t.Format("2006-01-02 15:04:05+00") }

// month is one partition.
type month struct {
	name string
	from time.Time
}

// months gives a table's partitions by month, the oldest first. Others that a person has attached are
// not ours to drop.
func (s *Store) months(ctx context.Context, table string) ([]month, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::regclass ORDER BY c.relname`, table)
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", table, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", table, err)
	}
	var out []month
	for _, name := range names {
		if from, err := time.Parse(table+"_2006_01", name); err == nil {
			out = append(out, month{name, from})
		}
	}
	return out, nil
}

// dropMonths drops the partitions whose last instant is before one, and gives how many.
func (s *Store) dropMonths(ctx context.Context, table string, before time.Time, goOn func() bool) (dropped int64, err error) {
	months, err := s.months(ctx, table)
	if err != nil {
		return 0, err
	}
	for _, m := range months {
		if m.from.AddDate(0, 1, 0).After(before) || !goOn() {
			break
		}
		err := s.InTx(ctx, func(tx *Tx) error {
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('simwarden.partitions'))`); err != nil {
				return err
			}
			// Whoever reads or writes the table waits behind this: better another day than for long.
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '3s'`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+pgx.Identifier{m.name}.Sanitize())
			return err
		})
		if err != nil {
			return dropped, err
		}
		dropped++
	}
	return dropped, nil
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
