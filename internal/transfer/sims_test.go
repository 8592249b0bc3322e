package transfer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/transfer"
)

func gbk(t *testing.T, s string) string {
	t.Helper()
	out, err := simplifiedchinese.GBK.NewEncoder().String(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func utf16(t *testing.T, s string) string {
	t.Helper()
	out, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSIMFilesAsPeopleHaveThem(t *testing.T) {
	a, b := number(1), number(2)
	cases := []struct {
		name      string
		text      string
		encoding  string
		separator string
		label     string // of the first SIM
	}{
		{"UTF-8 without a mark", "iccid,label\n" + a + ",水表\n" + b + ",\n", "utf-8", ",", "水表"},
		{"UTF-8 with a mark (F43)", "\ufeffICCID,备注\r\n" + a + ",水表\r\n" + b + ",x\r\n", "utf-8", ",", "水表"},
		{"GBK with a Chinese header", gbk(t, "卡号,接入号,备注\r\n"+a+",,水表\r\n"+b+",,\r\n"), "gbk", ",", "水表"},
		{"GBK that shows in the last row alone", gbk(t, "iccid,label\n"+b+",x\n"+a+",水表"), "gbk", ",", "水表"},
		{"UTF-16 with a mark, tabs, as Excel's Unicode text", utf16(t, "ICCID\tLabel\r\n"+a+"\t水表\r\n"+b+"\t\r\n"), "utf-16", "\t", "水表"},
		{"plain ASCII with semicolons", "iccid;label\n" + a + ";meter\n" + b + ";\n", "ascii", ";", "meter"},
		{"line ends of three kinds and none at the end", "iccid,label\r" + a + ",meter\n\r\n" + b + ",x", "ascii", ",", "meter"},
		{"quoted cells with separators and quotes in them", "\"iccid\",\"label\"\n\"" + a + "\",\"a \"\"b\"\", c\"\n" + b + ", \"x\" \n", "ascii", ",", `a "b", c`},
		{"a sep line before the header", "sep=;\niccid;label\n" + a + ";meter, left\n" + b + ";\n", "ascii", ";", "meter, left"},
		{"one column", "iccid\n" + a + "\n" + b + "\n", "ascii", ",", ""},
		{"empty rows between, and cells that were saved from a spreadsheet", "\n,,\niccid,label\n\n=\"" + a + "\",'=1+1\n,\n'" + b + ",x\n", "ascii", ",", "=1+1"},
		{"a quoted header with a line break, semicolons", "\"ICCID\";\"label\";\"re\nmark\"\n" + a + ";meter;\"two\nlines\"\n" + b + ";;\n", "ascii", ";", "meter"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rep := w.sims(c.text, transfer.Options{})
			if rep.Added != 2 || !rep.Written || len(rep.Errors) != 0 {
				t.Fatalf("2 SIMs should be added: %+v", rep)
			}
			if rep.Encoding != c.encoding || rep.Separator != c.separator {
				t.Errorf("read as %s with %q, want %s with %q", rep.Encoding, rep.Separator, c.encoding, c.separator)
			}
			sim, err := w.store.SIMByICCID(t.Context(), simwarden.MustParseICCID(a))
			if err != nil {
				t.Fatal(err)
			}
			if sim.Label != c.label {
				t.Errorf("the label is %q, want %q", sim.Label, c.label)
			}
		})
	}
}

func TestSIMRowErrors(t *testing.T) {
	good := number(1)
	bare := good[:19] // without its check digit
	cases := []struct {
		name    string
		text    string
		want    []string // row and column of each error
		problem string   // part of the first
	}{
		{"a number that a spreadsheet has damaged (I6)", "iccid\n" + good + "\n8.98604E+18\n", []string{"3 iccid"}, "as text"},
		{"a number of 20 digits that ends in zeros and does not fit (I6)", "iccid\n89860412345678900000\n" + good, []string{"2 iccid"}, "as text"},
		{"two numbers of 19 digits that end in zeros (I6)", "iccid\n8986041234567890000\n" + good + "\n8986041234567920000\n", []string{"2 iccid", "4 iccid"}, "several numbers"},
		{"a check digit that does not fit (F44)", "iccid\n" + good[:19] + string('0'+(good[19]-'0'+1)%10) + "\n", []string{"2 iccid"}, "should end in"},
		{"the same number twice (F44)", "iccid\n" + good + "\n" + number(2) + "\n" + good + "\n", []string{"4 iccid"}, "row 2"},
		{"the same card with and without its check digit (F44, I6)", "iccid\n" + good + "\n" + bare + "\n", []string{"3 iccid"}, "row 2"},
		{"the same card without and with its check digit (F44, I6)", "iccid\n" + bare + "\n" + good + "\n", []string{"3 iccid"}, "row 2"},
		{"the same card of a carrier with letters, in two forms (I6)", "iccid\n898604A41234567890\n898604A412345678907\n", []string{"3 iccid"}, "row 2"},
		{"filler and spaces make no new card (F33, F44)", "iccid\n898604A412345678901\n8986 04A4 1234 5678 901F\n", []string{"3 iccid"}, "row 2"},
		{"no number at all", "iccid,label\n,x\n", []string{"2 iccid"}, "no ICCID"},
		{"numbers of other kinds that are wrong, all at once", "iccid,msisdn,imsi,imei\n" + good + ",8.61E+12,12,12345\n", []string{"2 msisdn", "2 imsi", "2 imei"}, "exponent"},
		{"a NUL byte (F43)", "iccid,label\n" + good + ",a\x00b\n" + number(2) + ",\n", []string{"2 "}, "NUL"},
		{"bytes that are no text in the file's encoding (F43)", "iccid,label\n" + number(2) + ",水表\n" + number(3) + ",电表\n" + good + ",\xff\xff\n", []string{"4 "}, "utf-8"},
		{"more cells than the header", "iccid,label\n" + good + ",a,b\n", []string{"2 "}, "3 cells, the header 2"},
		{"a row that is cut off", "iccid,label\n" + number(2) + ",a\n" + good, []string{"3 "}, "1 cells, the header 2"},
		{"a line of more than 64 KiB (F43)", "iccid,label\n" + good + "," + strings.Repeat("x", 70<<10) + "\n" + number(2) + ",\n", []string{"2 "}, "64 KiB"},
		{"text behind a closing quote", "iccid,label\n" + good + ",\"a\" b\n", []string{"2 "}, "closing quote"},
		{"a quote that is never closed", "iccid,label\n" + good + ",\"a\n", []string{"2 "}, "not closed"},
		{"a missing quote that swallows the next card", "iccid,note\n" + good + ",\"a\n" + number(2) + ",b\"\n", []string{"2 "}, "quote is missing"},
		{"a label with a line break", "iccid,label\n" + good + ",\"a\nb\"\n", []string{"2 label"}, "line break"},
		{"a label that is too long", "iccid,label\n" + good + "," + strings.Repeat("长", 201) + "\n", []string{"2 label"}, "too long"},
	}
	w := newWorld(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rep := w.sims(c.text, transfer.Options{})
			if got := problems(rep); !slices.Equal(got, c.want) {
				t.Fatalf("errors in %q, want %q: %v", got, c.want, rep.Errors)
			}
			if !strings.Contains(rep.Errors[0].Problem, c.problem) {
				t.Errorf("the problem is %q, it should say %q", rep.Errors[0].Problem, c.problem)
			}
			if !rep.Refused || rep.Written || rep.Added != 0 {
				t.Errorf("one bad row refuses the file (I4): %+v", rep)
			}
			w.nothingWritten()
		})
	}
}

func TestFilesThatCannotBeImported(t *testing.T) {
	cases := []struct{ name, text, problem string }{
		{"an empty file", "", "empty"},
		{"no column for the ICCID (I4)", "number,备注\n" + number(1) + ",x\n", `its header has: "number", "备注"`},
		{"a column twice", "iccid,卡号\n" + number(1) + "," + number(2) + "\n", "twice"},
		{"10,000 columns (F43)", "iccid" + strings.Repeat(",a", 9999) + "\n", "10000 columns"},
		{"a spreadsheet", "PK\x03\x04....", "CSV UTF-8"},
		{"UTF-16 without its mark (F43)", "i\x00c\x00c\x00i\x00d\x00\n\x00", "UTF-16"},
		{"nothing but empty rows", "\n\n,,\n", "no header"},
		{"a header with a NUL byte (F43)", "iccid,\x00\n", "NUL"},
		{"a quote that stays open for more than 64 KiB", "iccid,label\n" + number(1) + ",\"" + strings.Repeat("x\n", 40<<10), "row 2 opens a quote"},
	}
	w := newWorld(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.importer.SIMs(t.Context(), strings.NewReader(c.text), "acme", transfer.Options{SkipBad: true})
			if !errors.Is(err, transfer.ErrFile) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("the error is %v, it should say %q", err, c.problem)
			}
			w.nothingWritten()
		})
	}
	if _, err := w.importer.SIMs(t.Context(), strings.NewReader("iccid\n"), "nobody", transfer.Options{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown account gives %v", err)
	}
}

func TestDamagedGBKFileLosesNothing(t *testing.T) {
	w := newWorld(t)
	text := gbk(t, "卡号;备注;颜色\r\n"+number(1)+";=cmd|' /C calc'!A0;红\r\n8.98604E+18;水表;绿\r\n"+number(3)+";电表;蓝\r\n")
	path := filepath.Join(t.TempDir(), "bad.csv")

	dry := w.sims(text, transfer.Options{DryRun: true, SkipBad: true, ErrorsFile: path})
	if dry.Good != 2 || dry.Bad != 1 || dry.Added != 0 || dry.Encoding != "gbk" {
		t.Errorf("a dry run finds 2 good and 1 bad rows: %+v", dry)
	}
	if want := `ignored columns: "颜色"`; !slices.Contains(dry.Warnings, want) {
		t.Errorf("the warnings %q should have %q", dry.Warnings, want)
	}
	w.nothingWritten()
	refused := w.sims(text, transfer.Options{})
	if !refused.Refused {
		t.Errorf("without --skip-bad one bad row refuses the file (I4): %+v", refused)
	}
	w.nothingWritten()
	if rep := w.sims(text, transfer.Options{SkipBad: true, ErrorsFile: path}); rep.Added != 2 || rep.Bad != 1 {
		t.Errorf("with --skip-bad the good rows are added: %+v", rep)
	}
	if n := w.count("sim"); n != 2 {
		t.Errorf("%d SIMs are there, want 2", n)
	}
	if n := w.count("audit"); n != 1 {
		t.Errorf("%d audit rows, want 1 (R2)", n)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "\ufeff\"卡号\",\"备注\",\"颜色\",\"row\",\"column\",\"problem\"\r\n\"8.98604E+18\",\"水表\",\"绿\",\"3\",\"iccid\","; !strings.HasPrefix(string(b), want) {
		t.Errorf("the file of bad rows is %s", b)
	}
}

func TestSecondImportAddsNothing(t *testing.T) {
	w := newWorld(t)
	text := "iccid\n" + number(1) + "\n" + number(2) + "\n"
	w.sims(text, transfer.Options{})
	// F44: the fleet knows the first card with its check digit; the file has it without.
	again := w.sims("iccid\n"+number(1)[:19]+"\n"+number(2)+"\n"+number(3)+"\n", transfer.Options{})
	if !again.Refused || again.AlreadyThere != 2 || again.Good != 1 || again.Added != 0 {
		t.Errorf("SIMs of the fleet are row errors, never merged (F44): %+v", again)
	}
	if !strings.Contains(again.Errors[0].Problem, number(1)) {
		t.Errorf("the problem should name the number that the fleet has: %s", again.Errors[0].Problem)
	}
	if rep := w.sims(text, transfer.Options{SkipBad: true}); rep.Added != 0 || rep.AlreadyThere != 2 {
		t.Errorf("the same file again adds nothing: %+v", rep)
	}
	if n := w.count("sim"); n != 2 {
		t.Errorf("%d SIMs are there, want 2", n)
	}
}

func TestOneRoundNumberAloneIsTaken(t *testing.T) {
	w := newWorld(t)
	rep := w.sims("iccid\n8986041234567890000\n"+number(1)+"\n", transfer.Options{})
	if rep.Added != 2 || len(rep.Errors) != 0 {
		t.Errorf("one number that ends in zeros may be a true one (I6): %+v", rep)
	}
	rep = w.sims("iccid\n8986041234567890000\n", transfer.Options{})
	if rep.AlreadyThere != 1 {
		t.Errorf("it is found again: %+v", rep)
	}
}

func TestSIMsOfOneDevice(t *testing.T) {
	w := newWorld(t)
	// One piece of equipment in its three forms: 14 digits, with check digit, with software version.
	text := "iccid,imei\n" + number(1) + ",490154203237518\n" + number(2) + ",49015420323751\n" + number(3) + ",4901542032375101\n" + number(4) + ",\n"
	if rep := w.sims(text, transfer.Options{}); rep.Added != 4 {
		t.Fatalf("4 SIMs should be added: %+v", rep)
	}
	w.sims("iccid,设备号\n"+number(5)+",49015420323751\n", transfer.Options{})
	if n := w.count("device"); n != 1 {
		t.Errorf("%d devices, want 1", n)
	}
	var with int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM sim WHERE device_id IS NOT NULL`).Scan(&with); err != nil {
		t.Fatal(err)
	}
	if with != 4 {
		t.Errorf("%d SIMs are in the device, want 4", with)
	}
}

func TestSpreadOfFirstReadings(t *testing.T) {
	list := func(n int) string {
		var b strings.Builder
		b.WriteString("iccid\n")
		for i := range n {
			b.WriteString(number(i+1) + "\n")
		}
		return b.String()
	}
	zero, hour := time.Duration(0), time.Hour
	cases := []struct {
		name           string
		sims           int
		spread         *time.Duration
		latest, within time.Duration // the last first reading is between both
	}{
		{"P2: 500 SIMs are read at once", 500, nil, 0, 0},
		{"P1: 501 SIMs are spread, 5 ms each", 501, nil, 2500 * time.Millisecond, 2500 * time.Millisecond},
		{"P1: 2,500 SIMs in three batches are spread, 5 ms each", 2500, nil, 12495 * time.Millisecond, 12495 * time.Millisecond},
		{"a person spreads 2,500 over an hour", 2500, &hour, 59 * time.Minute, time.Hour},
		{"a person wants 2,500 at once", 2500, &zero, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.sims(list(c.sims), transfer.Options{Spread: c.spread})
			var last time.Time
			var most int
			if err := w.db.QueryRow(t.Context(), `SELECT max(state_due_at) FROM poll_state`).Scan(&last); err != nil {
				t.Fatal(err)
			}
			if got := last.Sub(noon); got < c.latest || got > c.within {
				t.Errorf("the last first reading is after %s, want %s to %s", got, c.latest, c.within)
			}
			if c.within == 0 {
				return
			}
			if err := w.db.QueryRow(t.Context(), `
				SELECT max(n) FROM (SELECT count(*) AS n FROM poll_state
					GROUP BY floor(extract(epoch FROM state_due_at - $1) * 20 / $2)) g`, noon, c.within.Seconds()).Scan(&most); err != nil {
				t.Fatal(err)
			}
			if most > c.sims/20+3 {
				t.Errorf("%d of %d SIMs are due in one twentieth of the time: a burst (P1)", most, c.sims)
			}
		})
	}
}
