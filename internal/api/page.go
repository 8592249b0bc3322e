package api

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Page is one page of a list. Next is the cursor of the page after, empty at the end.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor,omitempty" doc:"Give it as cursor to get the page after; absent on the last page"`
}

// The bounds of a page (B17).
const (
	DefaultPage = 100
	MaxPage     = 500
)

// pageLimit is how many rows a page holds: limit, DefaultPage where it is 0, at most MaxPage.
func pageLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return DefaultPage, nil
	case limit < 0 || limit > MaxPage:
		return 0, badInput("a page of %d rows: give 1 to %d", limit, MaxPage)
	}
	return limit, nil
}

// Cursors are opaque to callers, so that what a list is ordered by may change. One belongs to its
// list: the list's name is in it.

func cursorOf(list string, id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + ":" + strconv.FormatInt(id, 10)))
}

// cursorID is the id in a cursor of that list, 0 for the empty one.
func cursorID(list, cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	if len(cursor) <= 64 {
		if text, err := base64.RawURLEncoding.DecodeString(cursor); err == nil {
			if name, digits, found := strings.Cut(string(text), ":"); found && name == list {
				if id, err := strconv.ParseInt(digits, 10, 64); err == nil && id > 0 {
					return id, nil
				}
			}
		}
	}
	return 0, badInput("this cursor is not one that this list gave out; begin without one")
}

// pageOf cuts the rows, of which one more than limit was asked for, to a page.
func pageOf[T any](rows []T, limit int, list string, id func(T) int64) Page[T] {
	if len(rows) <= limit {
		return Page[T]{Items: rows}
	}
	rows = rows[:limit]
	return Page[T]{Items: rows, Next: cursorOf(list, id(rows[limit-1]))}
}
