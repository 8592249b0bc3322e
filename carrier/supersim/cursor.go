package supersim

import (
	"errors"
	"net/url"
)

// errCursor says that a cursor, or the URL of a next page, is not one of this API.
var errCursor = errors.New("the link to the next page is not understood, or leads to this page")

const maxCursorBytes = 2048

// pageNames are the parameters that make up a cursor. A cursor is a query, not a URL: the next
// page is asked of the account's own host, whatever host the carrier's link names.
var pageNames = []string{"Page", "PageToken"}

// pageQuery gives the query of the page that the cursor names: first for the empty one.
func pageQuery(cursor string, first url.Values) (url.Values, error) {
	if cursor == "" {
		return first, nil
	}
	if len(cursor) > maxCursorBytes {
		return nil, errCursor
	}
	query, err := url.ParseQuery(cursor)
	if err != nil || query.Get("PageSize") == "" {
		return nil, errCursor
	}
	return query, nil
}

// nextCursor makes the cursor of the next page out of the carrier's link and of what this page
// was asked with; empty at the end.
func nextCursor(link, cursor string, query url.Values) (string, error) {
	if link == "" {
		return "", nil
	}
	u, err := url.Parse(link)
	if err != nil {
		return "", errCursor
	}
	theirs, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errCursor
	}
	next := url.Values{}
	for name, values := range query {
		next[name] = values
	}
	found := false
	for _, name := range pageNames {
		if v := theirs.Get(name); v != "" {
			next.Set(name, v)
			found = true
		}
	}
	text := next.Encode()
	if !found || text == cursor || len(text) > maxCursorBytes {
		return "", errCursor
	}
	return text, nil
}
