package onelink

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// cursor is where a list stands. There is no list of all SIMs: the groups are walked a page at a time,
// and each group's members a page at a time. Each call of List is one request, so that a page of
// groups alone is a page without SIMs.
type cursor struct {
	groupPage  int // the page of groups to read when groups is empty, from 1
	memberPage int // the page of members of groups[0], from 1
	// firstGroup and first are the first group of the page of groups before, and the first ICCID of
	// the page of members before, so that a page that comes again is seen.
	firstGroup, first string
	groups            []string
}

const (
	maxCursorBytes = 4096
	// maxPages bounds a list whose carrier never comes to an end.
	maxPages = 100_000
)

var errCursor = errors.New("the cursor is not one of this list, or the page before came again")

// String writes it as "2.1.ID.8986….ID_ID".
func (c cursor) String() string {
	return strconv.Itoa(c.groupPage) + "." + strconv.Itoa(c.memberPage) + "." + c.firstGroup + "." + c.first + "." + names(c.groups)
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{groupPage: 1, memberPage: 1}, nil
	}
	parts := strings.Split(text, ".")
	if len(parts) != 5 || len(text) > maxCursorBytes {
		return cursor{}, errCursor
	}
	groupPage, err := strconv.Atoi(parts[0])
	memberPage, err2 := strconv.Atoi(parts[1])
	if err != nil || err2 != nil || groupPage < 1 || groupPage > maxPages || memberPage < 1 || memberPage > maxPages {
		return cursor{}, errCursor
	}
	c := cursor{groupPage: groupPage, memberPage: memberPage, firstGroup: parts[2], first: parts[3]}
	if parts[4] != "" {
		c.groups = strings.Split(parts[4], "_")
	}
	for _, id := range c.groups {
		if !validGroup(id) {
			return cursor{}, errCursor
		}
	}
	return c, nil
}

// validGroup says that an id of a group can stand in a cursor: digits and letters alone.
func validGroup(id string) bool {
	return carrier.CheckKey(id) == nil && !strings.ContainsAny(id, "_-")
}

// List reads one page: of groups, by query/group-info, or of a group's members, by
// query/group-member. A SIM in two groups comes twice. An empty page ends a group, and the groups.
func (c *conn) List(ctx context.Context, text string) (carrier.Page, error) {
	const op = simwarden.OpListSIMs
	at, err := parseCursor(text)
	if err != nil {
		return carrier.Page{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	if len(at.groups) == 0 {
		return c.listGroups(ctx, at)
	}
	result, ans, err := c.read(ctx, op, "query/group-member", []param{
		{"groupId", at.groups[0]}, {"pageSize", strconv.Itoa(pageSize)}, {"startNum", strconv.Itoa(at.memberPage)}})
	if err != nil {
		return carrier.Page{}, err
	}
	iccids, err := decodeMembers(result)
	if err == nil && len(iccids) > 0 && (iccids[0] == at.first || at.memberPage == maxPages) {
		err = errCursor
	}
	if err != nil {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, err)
	}
	page := carrier.Page{Readings: make([]simwarden.Reading, len(iccids))}
	for i, iccid := range iccids {
		page.Readings[i] = simwarden.Reading{Key: iccid, ICCID: parse(iccid), ReadAt: ans.BegunAt}
	}
	next := cursor{groupPage: at.groupPage, memberPage: at.memberPage + 1, firstGroup: at.firstGroup, groups: at.groups}
	if len(iccids) == 0 {
		next.memberPage, next.groups = 1, at.groups[1:]
	} else {
		next.first = iccids[0]
	}
	page.Next = next.String()
	return page, nil
}

func (c *conn) listGroups(ctx context.Context, at cursor) (carrier.Page, error) {
	const op = simwarden.OpListSIMs
	result, ans, err := c.read(ctx, op, "query/group-info", []param{{"pageSize", strconv.Itoa(pageSize)}, {"startNum", strconv.Itoa(at.groupPage)}})
	if err != nil {
		return carrier.Page{}, err
	}
	groups, err := decodeGroups(result)
	if err == nil && len(groups) > 0 && (groups[0] == at.firstGroup || at.groupPage == maxPages) {
		err = errCursor
	}
	if err != nil {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, err)
	}
	if len(groups) == 0 {
		return carrier.Page{}, nil
	}
	next := cursor{groupPage: at.groupPage + 1, memberPage: 1, firstGroup: groups[0], groups: groups}.String()
	if len(next) > maxCursorBytes {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, errCursor)
	}
	return carrier.Page{Next: next}, nil
}
