package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of a file.
const (
	MaxRecordBytes = 64 << 10 // one record with its quoted line breaks
	MaxColumns     = 1000
	MaxRows        = 2_000_000
)

// record is one row of a file. Row counts as a spreadsheet shows it: the header is 1, empty rows
// are counted too. bad says why its cells cannot be used.
type record struct {
	row   int
	cells []string
	bad   string
}

// blank says that a row has nothing in it.
func (r record) blank() bool {
	if r.bad != "" {
		return false
	}
	for _, c := range r.cells {
		if strings.TrimSpace(c) != "" {
			return false
		}
	}
	return true
}

// recordReader cuts a file into records as RFC 4180 has them, with line ends CR LF, LF or CR in
// any mixture, and bare quotes inside a cell that does not begin with one taken as they are. It
// keeps one record in memory.
type recordReader struct {
	in        *bufio.Reader
	enc       *encoding
	separator byte // 0 before the header was read: any of separators
	row       int
	buf       []byte
}

func newRecordReader(in io.Reader, enc *encoding) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(in, 64<<10), enc: enc}
}

// next gives the next record; io.EOF at the end. Other errors are of reading, or wrap ErrFile where
// what follows cannot be told apart any more.
func (r *recordReader) next() (record, error) {
	rec, text, err := r.line()
	if err != nil || rec.bad != "" && text == "" {
		return rec, err
	}
	var bad string
	rec.cells, bad = split(text, r.separator)
	if rec.bad == "" {
		rec.bad = bad
	}
	return rec, nil
}

// line gives the next record as text that has not been cut into cells.
func (r *recordReader) line() (rec record, text string, err error) {
	raw, tooLong, err := r.raw()
	if err != nil {
		return record{}, "", err
	}
	r.row++
	rec.row = r.row
	if tooLong {
		rec.bad = fmt.Sprintf("the line is longer than %d KiB; is a line end or a quote missing?", MaxRecordBytes>>10)
		return rec, "", nil
	}
	text, ok := r.enc.text(raw)
	switch {
	case strings.ContainsRune(text, 0):
		rec.bad = "the row has a NUL byte in it; the file is damaged, export it again"
	case !ok || strings.ContainsRune(text, '\uFFFD'):
		rec.bad = fmt.Sprintf("the row has characters that cannot be read as %s, as which the file was taken; save it as UTF-8, or name its encoding", r.enc.name)
	}
	return rec, text, nil
}

// raw collects the bytes of one record without its line end. A record that is too long is passed
// over up to its line end; one whose quote stays open for so long is an error, as nobody can say
// where the next begins.
func (r *recordReader) raw() (b []byte, tooLong bool, err error) {
	r.buf = r.buf[:0]
	quoted, cellStart := false, true
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			switch {
			case !errors.Is(err, io.EOF):
				return nil, false, fmt.Errorf("read the file: %w", err)
			case len(r.buf) == 0 && !tooLong:
				return nil, false, io.EOF
			}
			return r.buf, tooLong, nil
		}
		switch {
		case c == '"' && (quoted || cellStart):
			quoted = !quoted
			cellStart = !quoted // a doubled quote opens again
		case (c == '\n' || c == '\r') && !quoted:
			if c == '\r' {
				r.skipNewline()
			}
			return r.buf, tooLong, nil
		case !quoted && r.separates(c):
			cellStart = true
		case c != ' ' || !cellStart:
			cellStart = false
		}
		if len(r.buf) < MaxRecordBytes {
			r.buf = append(r.buf, c)
		} else if tooLong = true; quoted {
			return nil, true, fileError("row %d opens a quote that is not closed within %d KiB; close it or take it out", r.row+1, MaxRecordBytes>>10)
		}
	}
}

func (r *recordReader) separates(c byte) bool {
	if r.separator == 0 {
		return bytes.IndexByte(separators, c) >= 0
	}
	return c == r.separator
}

func (r *recordReader) skipNewline() {
	if next, err := r.in.Peek(1); err == nil && next[0] == '\n' {
		_, _ = r.in.Discard(1) // what was peeked is there
	}
}

// split cuts the text of one record into its cells and takes the quotes off; bad says what is
// wrong with them.
func split(text string, separator byte) (cells []string, bad string) {
	for {
		cell := strings.TrimLeft(text, " ")
		if !strings.HasPrefix(cell, `"`) {
			i := strings.IndexByte(text, separator)
			if i < 0 {
				return append(cells, text), bad
			}
			cells, text = append(cells, text[:i]), text[i+1:]
			continue
		}
		value, rest, closed := unquote(cell[1:])
		rest = strings.TrimLeft(rest, " ")
		switch {
		case !closed:
			return append(cells, value), "a quote is opened and not closed"
		case rest != "" && rest[0] != separator:
			bad = "there is text behind a closing quote; a quote inside a quoted cell is written twice"
			i := strings.IndexByte(rest, separator)
			if i < 0 {
				return append(cells, value+rest), bad
			}
			value, rest = value+rest[:i], rest[i:]
		}
		cells = append(cells, value)
		if rest == "" {
			return cells, bad
		}
		text = rest[1:]
	}
}

// unquote reads up to the closing quote, where doubled quotes are one.
func unquote(s string) (value, rest string, closed bool) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			b.WriteString(s)
			return b.String(), "", false
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		if !strings.HasPrefix(s, `"`) {
			return b.String(), s, true
		}
		b.WriteByte('"')
		s = s[1:]
	}
}

// separators are those that are looked for in a header.
var separators = []byte{',', ';', '\t'}

// separatorHint reads the line "sep=;" that some spreadsheets put before the header.
func separatorHint(line []byte) (byte, bool) {
	if rest, found := bytes.CutPrefix(bytes.ToLower(line), []byte("sep=")); found && len(rest) == 1 && bytes.IndexByte(separators, rest[0]) >= 0 {
		return rest[0], true
	}
	return 0, false
}
