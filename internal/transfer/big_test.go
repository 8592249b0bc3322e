package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/transfer"
)

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

// madeUp is a file of n rows that is computed while it is read, so that a test's memory is the
// importer's. line gives the nth row, from 1.
type madeUp struct {
	head string
	n    int
	line func(n int) string
	next int
	rest string
	read int64
	at   func(read int64) // told how much was read, before each read
}

func (m *madeUp) Read(b []byte) (int, error) {
	if m.at != nil {
		m.at(m.read)
	}
	for m.rest == "" {
		switch {
		case m.next == 0:
			m.rest = m.head + "\n"
		case m.next > m.n:
			return 0, io.EOF
		default:
			m.rest = m.line(m.next) + "\n"
		}
		m.next++
	}
	n := copy(b, m.rest)
	m.rest = m.rest[n:]
	m.read += int64(n)
	return n, nil
}

func (m *madeUp) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("only back to the start")
	}
	m.next, m.rest, m.read = 0, "", 0
	return 0, nil
}

func simLine(n int) string {
	return fmt.Sprintf("%s,861064%07d,46004%010d,meter %d", number(n), n, n, n)
}

// peak runs fn and gives the most bytes that the heap held meanwhile.
func peak(fn func()) (bytes uint64) {
	runtime.GC()
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		var m runtime.MemStats
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse+m.StackInuse)
			select {
			case <-stop:
				done <- most
				return
			case <-tick.C:
			}
		}
	}()
	fn()
	close(stop)
	return <-done
}

func TestHundredThousandSIMs(t *testing.T) {
	const rows = 100_000
	w := newWorld(t)
	var rep transfer.Report
	used := peak(func() {
		var err error
		rep, err = w.importer.SIMs(t.Context(), &madeUp{head: "iccid,msisdn,imsi,label", n: rows, line: simLine}, "acme", transfer.Options{})
		if err != nil {
			t.Fatal(err)
		}
	})
	if rep.Added != rows || w.count("sim") != rows || w.count("poll_state") != rows || w.count("poll_nudge") != rows {
		t.Errorf("all of them should be added: %+v", rep)
	}
	// What grows with the rows is the set of their numbers: a million must stay below 256 MB (F43).
	if used > 96<<20 {
		t.Errorf("the heap held %d MB for %d rows", used>>20, rows)
	}
	again, err := w.importer.SIMs(t.Context(), &madeUp{head: "iccid,msisdn,imsi,label", n: rows, line: simLine}, "acme", transfer.Options{SkipBad: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.AlreadyThere != rows || len(again.Errors) != transfer.MaxErrors || again.ErrorsLeftOut != rows-transfer.MaxErrors {
		t.Errorf("a second time none is added, and %d errors are kept: %d there already, %d errors, %d left out",
			transfer.MaxErrors, again.AlreadyThere, len(again.Errors), again.ErrorsLeftOut)
	}
	if n := w.count("sim"); n != rows {
		t.Errorf("%d SIMs are there after the second import, want %d", n, rows)
	}
}

func TestImportStoppedInTheMiddleLeavesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	src := &madeUp{head: "iccid,msisdn,imsi,label", n: 20_000, line: simLine, at: func(read int64) {
		if read > 1<<19 { // about 8,000 rows of it have been written by then
			stop()
		}
	}}
	_, err := w.importer.SIMs(ctx, src, "acme", transfer.Options{})
	wantError(t, err, transfer.ErrStopped)
	w.nothingWritten()
	// The connection and the lock are free again, as soon as the server has noticed.
	w.unlocked()
	if rep := w.sims("iccid\n"+number(1)+"\n", transfer.Options{}); rep.Added != 1 {
		t.Errorf("the next import goes through: %+v", rep)
	}
}

// unlocked waits until no import holds its lock: the server gives it back when it notices that the connection is gone.
func (w *world) unlocked() {
	w.Helper()
	for begun := time.Now(); w.count("pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") > 0; {
		if time.Since(begun) > time.Minute {
			w.Fatal("the lock of a stopped import is still held")
		}
	}
}

func TestReadErrorInTheMiddleLeavesNothing(t *testing.T) {
	w := newWorld(t)
	broken := errors.New("the disk is gone")
	src := &madeUp{head: "iccid,msisdn,imsi,label", n: 5000, line: simLine}
	_, err := w.importer.SIMs(t.Context(), brokenAfter{src, 1 << 17, broken}, "acme", transfer.Options{})
	wantError(t, err, broken)
	w.nothingWritten()
}

type brokenAfter struct {
	*madeUp
	most int64
	err  error
}

func (b brokenAfter) Read(p []byte) (int, error) {
	if b.read > b.most {
		return 0, b.err
	}
	return b.madeUp.Read(p)
}

func TestProgressOncePerSecond(t *testing.T) {
	w := newWorld(t)
	c := w.importer.Clock.(*clock.Manual)
	var told []int
	src := &madeUp{head: "iccid,msisdn,imsi,label", n: 10_000, line: func(n int) string {
		c.Advance(400 * time.Microsecond) // 4 s in all
		return simLine(n)
	}}
	_, err := w.importer.SIMs(t.Context(), src, "acme", transfer.Options{Progress: func(p transfer.Progress) { told = append(told, p.Rows) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) < 2 || len(told) > 4 {
		t.Errorf("4 s of work are told at %v", told)
	}
}

func TestMoreRowsThanAllowedAreRefused(t *testing.T) {
	w := newWorld(t)
	src := &madeUp{head: "iccid", n: transfer.MaxRows + 1, line: func(int) string { return "x" }}
	_, err := w.importer.SIMs(t.Context(), src, "acme", transfer.Options{SkipBad: true})
	wantError(t, err, transfer.ErrFile)
	w.nothingWritten()
}

// BenchmarkImportSIMs reports what a row costs and what memory the whole holds, that of a million
// rows with SIMWARDEN_BENCH_ROWS=1000000.
func BenchmarkImportSIMs(b *testing.B) {
	rows := 100_000
	if text := os.Getenv("SIMWARDEN_BENCH_ROWS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		rows = n
	}
	for b.Loop() {
		w := newWorld(b)
		began := time.Now()
		used := peak(func() {
			rep, err := w.importer.SIMs(b.Context(), &madeUp{head: "iccid,msisdn,imsi,label", n: rows, line: simLine}, "acme", transfer.Options{})
			if err != nil || rep.Added != rows {
				b.Fatalf("%+v, %v", rep, err)
			}
		})
		b.ReportMetric(float64(time.Since(began).Microseconds())/float64(rows), "µs/row")
		b.ReportMetric(float64(used>>20), "heap-MB")
		b.ReportMetric(residentMB(b), "peak-RSS-MB")
	}
}

// residentMB is the most memory that this process ever held, in MB (proc(5), VmHWM).
func residentMB(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb / 1024
		}
	}
	b.Fatal("the kernel does not say")
	return 0
}

// BenchmarkImportSubscriptions reports what a purchase costs.
func BenchmarkImportSubscriptions(b *testing.B) {
	const rows = 20_000
	for b.Loop() {
		w := newWorld(b)
		w.plan("m30", simwarden.PlanMain, "UTC")
		if rep, err := w.importer.SIMs(b.Context(), &madeUp{head: "iccid,msisdn,imsi,label", n: rows, line: simLine}, "acme", transfer.Options{}); err != nil || rep.Added != rows {
			b.Fatalf("%+v, %v", rep, err)
		}
		began := time.Now()
		rep, err := w.importer.Subscriptions(b.Context(), &madeUp{head: "iccid,plan,start", n: rows, line: func(n int) string { return number(n) + ",m30,2026-05-01" }}, transfer.Options{})
		if err != nil || rep.Added != rows {
			b.Fatalf("%+v, %v", rep, err)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/rows, "µs/row")
	}
}
