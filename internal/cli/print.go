package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// printJSON prints one value, indented.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// maxCell bounds a column, so that tables fit a terminal.
const maxCell = 44

// table prints rows under a head, columns as wide as they need to be.
type table struct {
	rows [][]string
}

func newTable(head ...string) *table { return &table{rows: [][]string{head}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			row[i] = clean(cell, maxCell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// clean makes text from outside safe for a terminal and short enough.
func clean(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > limit {
		runes := []rune(s)
		return string(runes[:limit-1]) + "…"
	}
	return s
}

// spaced is a word of the database as people read it.
func spaced(word string) string { return strings.ReplaceAll(word, "_", " ") }

// times is a count with its noun, which takes an s where there are several.
func times(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// when prints an instant, UTC, and how far it is from now.
func when(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return instant(at) + " (" + distance(at, now) + ")"
}

// instant is an instant to the second, in UTC.
func instant(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }

// distance is how far an instant is from now: "3m ago", "in 2h5m".
func distance(at, now time.Time) string {
	d := at.Sub(now)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return short(-d) + " ago"
	}
	return "in " + short(d)
}

func ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return distance(at, now)
}

func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// bytesText prints a count of bytes in decimal units, -1 as unlimited.
func bytesText(n int64) string {
	if n < 0 {
		return "unlimited"
	}
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	f, i := float64(n), 0
	for f >= 1000 && i < len(units)-1 {
		f /= 1000
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
