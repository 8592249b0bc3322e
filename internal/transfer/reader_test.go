package transfer

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
)

// readAll reads a text with the separator as far as it goes, and gives the rows that are not empty.
func readAll(text string, separator byte) (recs []record, err error) {
	in, enc, err := openEncoding(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	r := newRecordReader(in, enc)
	r.separator = separator
	for {
		rec, err := r.next()
		if errors.Is(err, io.EOF) {
			return recs, nil
		}
		if err != nil {
			return recs, err
		}
		if !rec.blank() {
			recs = append(recs, rec)
		}
	}
}

func FuzzReader(f *testing.F) {
	gbk, err := simplifiedchinese.GBK.NewEncoder().String("卡号,备注\r\n898604A412345678901,水表\r\n")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"iccid,label\n898604A412345678901,x\n", "\ufefficcid;label\r\n8.98604E+18;x\r\n", gbk,
		"\xff\xfei\x00c\x00c\x00i\x00d\x00\n\x00", "iccid\r\r\n\n\"a\"\"b\"\r", "iccid,\"a\nb\",\"c\n898604A412345678901\n",
		"sep=\t\niccid\tx\n", "iccid,a\n\x00,\xff\n", "\"", "iccid,\"" + strings.Repeat("x", 100), "=\"8986\",'1\n", " \"a\" ,b\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in, enc, err := openEncoding(strings.NewReader(text), "")
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Fatalf("the error %v does not say that it is the file", err)
			}
			return
		}
		r := newRecordReader(in, enc)
		head, err := readHeader(r, simColumns, []string{columnICCID})
		if err != nil && !errors.Is(err, ErrFile) {
			t.Fatalf("the error %v does not say that it is the file", err)
		}
		if err == nil && (len(head.names) > MaxColumns || head.at[columnICCID] >= len(head.names)) {
			t.Fatalf("impossible header %+v", head)
		}
		for rows := 0; err == nil; rows++ {
			if rows > len(text)+1 {
				t.Fatal("there are more rows than bytes")
			}
			var rec record
			if rec, err = r.next(); err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, ErrFile) {
					t.Fatalf("the error %v does not say that it is the file", err)
				}
				break
			}
			for _, cell := range rec.cells {
				if !utf8.ValidString(cell) {
					t.Fatalf("the cell %q is not text", cell)
				}
			}
			if head.shape(rec) != "" {
				continue
			}
			for column := range head.at {
				if strings.ContainsAny(head.cell(rec, column), "\x00\uFFFD") {
					t.Fatalf("a cell with characters that cannot be read came through: %q", rec.cells)
				}
			}
		}
		compareWithStandardLibrary(t, text)
	})
}

// compareWithStandardLibrary holds the reader against encoding/csv, for what that reads.
func compareWithStandardLibrary(t *testing.T, text string) {
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\r\x00\uFFFD\ufeff") || len(text) > MaxRecordBytes {
		return
	}
	std := csv.NewReader(strings.NewReader(text))
	std.FieldsPerRecord = -1
	want, err := std.ReadAll()
	if err != nil {
		return
	}
	want = slices.DeleteFunc(want, func(cells []string) bool { return (record{cells: cells}).blank() })
	got, err := readAll(text, ',')
	if errors.Is(err, ErrFile) && len(got) == 0 {
		return // another kind of file
	}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d rows, %v; the standard library reads %d from %q", len(got), err, len(want), text)
	}
	for i, rec := range got {
		if rec.bad != "" || !slices.Equal(rec.cells, want[i]) {
			t.Fatalf("row %d is %q %s, the standard library reads %q", rec.row, rec.cells, rec.bad, want[i])
		}
	}
}

func TestFormulasAreHarmlessAndComeBack(t *testing.T) {
	cases := []struct{ name, cell, want string }{
		{"F45: an equals sign", "=1+1", "'=1+1"},
		{"F45: a plus sign", "+8613800000000", "'+8613800000000"},
		{"F45: a minus sign", "-2+3", "'-2+3"},
		{"F45: an at sign", "@SUM(1)", "'@SUM(1)"},
		{"F45: a tab", "\t=1", "'\t=1"},
		{"F45: a carriage return", "\r=1", "'\r=1"},
		{"F45: an equals sign in full width", "＝1", "'＝1"},
		{"a number that a spreadsheet would round", "89860412345678901234", "'89860412345678901234"},
		{"a number that it would not", "123456789012345", "123456789012345"},
		{"an apostrophe stays itself", "'=1", "''=1"},
		{"plain text", "meter = 7", "meter = 7"},
		{"nothing", "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := SafeCell(c.cell); got != c.want {
				t.Errorf("SafeCell(%q) = %q, want %q", c.cell, got, c.want)
			}
			if got := PlainCell(SafeCell(c.cell)); got != c.cell {
				t.Errorf("it comes back as %q", got)
			}
		})
	}
}

func TestEveryCellComesBack(t *testing.T) {
	text := rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune("=+-@\t\r\n'\",; 水表")), rapid.Rune())).
		Filter(func(s string) bool { return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\uFFFD") }) // those are refused
	row := rapid.SliceOfN(text, 1, 6).Filter(func(cells []string) bool { return !(record{cells: cells}).blank() })
	rapid.Check(t, func(t *rapid.T) {
		cells := row.Draw(t, "cells")
		var b strings.Builder
		b.WriteString("\ufeff")
		if err := writeRecord(&b, cells); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(b.String(), ',')
		if err != nil || len(got) != 1 || got[0].bad != "" {
			t.Fatalf("%q is read as %+v, %v", b.String(), got, err)
		}
		for i, cell := range got[0].cells {
			if plain := PlainCell(cell); plain != cells[i] {
				t.Errorf("the cell %q comes back as %q", cells[i], plain)
			}
		}
	})
}

func TestPackedNumbersAreDistinct(t *testing.T) {
	// A number, the same with a check digit or a letter behind it, and with its last character changed.
	seen := map[packed]string{}
	for _, s := range []string{"898604A41234567890", "898604A412345678901", "898604A412345678902", "898604A41234567890E",
		"898604A4123456789012", "898604A41234567891", "898600000000000001", "8986000000000000018"} {
		id := simwarden.MustParseICCID(s)
		if other, twice := seen[pack(id)]; twice {
			t.Errorf("%s and %s are packed alike", other, s)
		}
		seen[pack(id)] = s
	}
}

func TestSampleThatCutsACharacter(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"UTF-8 cut in the middle of a character, no line end", strings.Repeat("x", sampleBytes-1) + "水", EncodingASCII},
		{"UTF-8 with other characters before the cut", "水" + strings.Repeat("x", sampleBytes-4) + "水", EncodingUTF8},
		{"one damaged line among UTF-8 ones", "水\n表\n\xff\xff\n水\n", EncodingUTF8},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, enc, err := openEncoding(strings.NewReader(c.text), "")
			if err != nil {
				t.Fatal(err)
			}
			if enc.name != c.want {
				t.Errorf("taken as %s, want %s", enc.name, c.want)
			}
		})
	}
}

func TestEncodingThatAPersonNames(t *testing.T) {
	cases := []struct{ name, text, encoding, want string }{
		{"GBK is read as such", "\xcb\xae", EncodingGBK, "水"},
		{"the mark of UTF-8 speaks against GBK", "\ufefficcid", EncodingGBK, ""},
		{"an encoding that is not known", "iccid", "latin-9", ""},
		{"UTF-8 is taken at its word", "水", EncodingUTF8, "水"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in, enc, err := openEncoding(strings.NewReader(c.text), c.encoding)
			if c.want == "" {
				if !errors.Is(err, ErrFile) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			rec, err := newRecordReader(in, enc).next()
			if err != nil || rec.bad != "" || rec.cells[0] != c.want {
				t.Errorf("read %+v, %v, want %q", rec, err, c.want)
			}
		})
	}
}
