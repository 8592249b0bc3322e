package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// Devices adds the devices of a CSV file. It has a column imei, and may have name. A device whose
// equipment is there is counted and left as it is. All rows are added in one transaction or none.
//
// The errors are those of SIMs, but for the account.
func (im Importer) Devices(ctx context.Context, src io.ReadSeeker, o Options) (Report, error) {
	return im.file(ctx, src, KindDevices, o, func(_ context.Context, r *run) (loader, error) {
		return &deviceLoader{run: r, seen: map[string]int{}}, nil
	})
}

type deviceRow struct {
	rec    record
	device store.NewDevice
}

type deviceLoader struct {
	*run
	seen map[string]int // equipments of this file, to their rows
	rows []deviceRow
}

func (l *deviceLoader) pending() int { return len(l.rows) }

func (l *deviceLoader) add(rec record) {
	row := deviceRow{rec: rec}
	var problems []RowError
	text := l.head.cell(rec, columnIMEI)
	var err error
	if row.device.IMEI, err = simwarden.ParseIMEI(text); err != nil {
		problems = append(problems, wrong(columnIMEI, text, err))
	} else {
		body := row.device.IMEI.String()[:14]
		if before, twice := l.seen[body]; twice {
			problems = append(problems, RowError{Column: columnIMEI, Value: text, Problem: fmt.Sprintf("the same device is in row %d; take one of them out", before)})
		} else {
			l.seen[body] = rec.row
		}
	}
	row.device.Name = l.head.cell(rec, columnName)
	if problem := textProblem(row.device.Name, maxLabel); problem != "" {
		problems = append(problems, RowError{Column: columnName, Value: row.device.Name, Problem: problem})
	}
	if len(problems) > 0 {
		l.bad(rec, problems...)
		return
	}
	l.rows = append(l.rows, row)
}

func (l *deviceLoader) flush(ctx context.Context, _ bool) error {
	rows := l.rows
	l.rows = l.rows[:0]
	imeis := make([]simwarden.IMEI, len(rows))
	for i, row := range rows {
		imeis[i] = row.device.IMEI
	}
	known, err := l.tx.KnownDevices(ctx, imeis)
	if err != nil {
		return err
	}
	fresh := make([]store.NewDevice, 0, len(rows))
	for _, row := range rows {
		if known[row.device.IMEI.String()[:14]] {
			l.rep.AlreadyThere++
			continue
		}
		fresh = append(fresh, row.device)
	}
	l.rep.Good += len(fresh)
	if len(fresh) == 0 || l.refused() {
		return nil
	}
	return l.tx.AddDevices(ctx, fresh)
}
