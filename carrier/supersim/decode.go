package supersim

import (
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Why an answer is not understood.
var (
	errNoStatus = errors.New("the SIM has no status")
	errOtherSIM = errors.New("the answer is about another SIM")
	errManySIMs = errors.New("more than one SIM has this ICCID")
	errNotAmong = errors.New("the SIM is not among those found")
	errMember   = errors.New("a member is absent or of the wrong kind")
)

// maxWordBytes bounds a status word that nobody knows; it is kept as it came.
const maxWordBytes = 64

// The members of a SIM that are read.
const (
	simSID = iota
	simICCID
	simStatus
	simMembers
)

var simNames = []string{"sid", "iccid", "status"}

// decodeOne reads a SIM that must be the one of the key and have a status.
func decodeOne(body []byte, key string) (simwarden.Reading, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return simwarden.Reading{}, err
	}
	reading, err := decodeSIM(doc)
	switch {
	case err != nil:
		return simwarden.Reading{}, err
	case reading.Key != key:
		return simwarden.Reading{}, errOtherSIM
	case reading.State == nil:
		return simwarden.Reading{}, errNoStatus
	}
	return reading, nil
}

func decodeSIM(v carrier.JSON) (simwarden.Reading, error) {
	var member [simMembers]carrier.JSON
	if err := v.Pick(member[:], simNames); err != nil {
		return simwarden.Reading{}, err
	}
	var r simwarden.Reading
	var ok bool
	if r.Key, ok = member[simSID].Text(); !ok || !member[simSID].IsText() {
		return simwarden.Reading{}, fmt.Errorf("%w: sid", errMember)
	}
	if err := carrier.CheckKey(r.Key); err != nil {
		return simwarden.Reading{}, err
	}
	if text, ok := member[simICCID].Text(); ok {
		// An ICCID that does not parse is left out: the SID still names the SIM.
		if iccid, err := simwarden.ParseICCID(text); err == nil {
			r.ICCID = iccid
		}
	}
	if s := member[simStatus]; !s.Null() {
		word, _ := s.Text()
		if !s.IsText() || word == "" || len(word) > maxWordBytes {
			return simwarden.Reading{}, fmt.Errorf("%w: status", errMember)
		}
		state := stateOf(word)
		r.State = &state
	}
	return r, nil
}

// only gives the one SIM of the ICCID, which must have a status.
func only(readings []simwarden.Reading, iccid simwarden.ICCID) (simwarden.Reading, error) {
	var hit simwarden.Reading
	hits := 0
	for _, r := range readings {
		if r.ICCID.SameCard(iccid) {
			hit = r
			hits++
		}
	}
	switch {
	case hits == 0:
		return simwarden.Reading{}, errNotAmong
	case hits > 1:
		return simwarden.Reading{}, errManySIMs
	case hit.State == nil:
		return simwarden.Reading{}, errNoStatus
	}
	return hit, nil
}

var (
	listNames  = []string{"sims", "meta"}
	usageNames = []string{"usage_records", "meta"}
	metaNames  = []string{"next_page_url"}
)

// decodeList reads a page of SIMs and the link to the next, empty at the end. A SIM without a
// status is a reading without a state.
func decodeList(body []byte) (readings []simwarden.Reading, next string, err error) {
	rows, next, err := decodePage(body, listNames)
	if err != nil {
		return nil, "", err
	}
	err = rows.Elements(func(v carrier.JSON) error {
		r, err := decodeSIM(v)
		readings = append(readings, r)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return readings, next, nil
}

// decodePage takes a page apart: its rows, and the link to the next page.
func decodePage(body []byte, names []string) (rows carrier.JSON, next string, err error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return nil, "", err
	}
	var member [2]carrier.JSON
	if err := doc.Pick(member[:], names); err != nil {
		return nil, "", err
	}
	// Without the part that says whether there are more pages, a list might end too early.
	var meta [1]carrier.JSON
	if err := member[1].Pick(meta[:], metaNames); err != nil {
		return nil, "", err
	}
	if !meta[0].Null() {
		if !meta[0].IsText() {
			return nil, "", fmt.Errorf("%w: next_page_url", errMember)
		}
		next, _ = meta[0].Text()
	}
	return member[0], next, nil
}
