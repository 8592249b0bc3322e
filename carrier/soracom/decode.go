package soracom

import (
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Why an answer is not understood.
var (
	errNoLogin     = errors.New("the login's answer has no apiKey and token")
	errNoStatus    = errors.New("the SIM has no status")
	errOtherSIM    = errors.New("the answer is about another SIM")
	errManySIMs    = errors.New("more than one SIM has this ICCID")
	errNotAmong    = errors.New("the SIM is not among those found")
	errMemberOfSIM = errors.New("a member of the SIM is of the wrong kind")
)

// maxWordBytes bounds a status word that nobody knows; it is kept as it came.
const maxWordBytes = 64

// minNumberDigits is how long a simId must be that comes as a number.
const minNumberDigits = 18

// The members of a SIM that are read.
const (
	simID = iota
	simStatus
	simProfiles
	simActiveProfile
	simMembers
)

var simNames = []string{"simId", "status", "profiles", "activeProfileId"}

// match is a SIM with all its ICCIDs: one SIM may hold several profiles.
type match struct {
	reading  simwarden.Reading
	profiles []profile
}

type profile struct {
	id    string
	iccid simwarden.ICCID
}

// decodeOne reads a Sim object that must be the SIM of the key and have a status.
func decodeOne(body []byte, key string) (simwarden.Reading, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return simwarden.Reading{}, err
	}
	found, err := decodeSIM(doc)
	switch {
	case err != nil:
		return simwarden.Reading{}, err
	case found.reading.Key != key:
		return simwarden.Reading{}, errOtherSIM
	case found.reading.State == nil:
		return simwarden.Reading{}, errNoStatus
	}
	return found.reading, nil
}

// decodeList reads an array of Sim objects. One without a status is a reading without a state.
func decodeList(body []byte) ([]simwarden.Reading, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return nil, err
	}
	readings := make([]simwarden.Reading, 0, pageSize)
	err = doc.Elements(func(v carrier.JSON) error {
		found, err := decodeSIM(v)
		readings = append(readings, found.reading)
		return err
	})
	if err != nil {
		return nil, err
	}
	return readings, nil
}

// decodeSearch finds the one SIM of the ICCID in an array of Sim objects.
func decodeSearch(body []byte, iccid simwarden.ICCID) (match, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return match{}, err
	}
	var hit match
	hits := 0
	err = doc.Elements(func(v carrier.JSON) error {
		found, err := decodeSIM(v)
		if err == nil && found.has(iccid) {
			hit = found
			hits++
		}
		return err
	})
	switch {
	case err != nil:
		return match{}, err
	case hits == 0:
		return match{}, errNotAmong
	case hits > 1:
		return match{}, errManySIMs
	case hit.reading.State == nil:
		return match{}, errNoStatus
	}
	return hit, nil
}

func (m match) has(iccid simwarden.ICCID) bool {
	if m.reading.ICCID.SameCard(iccid) {
		return true
	}
	for _, p := range m.profiles {
		if p.iccid.SameCard(iccid) {
			return true
		}
	}
	return false
}

func decodeSIM(v carrier.JSON) (match, error) {
	var member [simMembers]carrier.JSON
	if err := v.Pick(member[:], simNames); err != nil {
		return match{}, err
	}
	var m match
	var ok bool
	// A simId is a card's number: some clients get it as a JSON number, whose digits are all here.
	if m.reading.Key, ok = member[simID].Text(); !ok || !member[simID].IsText() && len(m.reading.Key) < minNumberDigits {
		return match{}, fmt.Errorf("%w: simId", errMemberOfSIM)
	}
	if err := carrier.CheckKey(m.reading.Key); err != nil {
		return match{}, err
	}
	if s := member[simStatus]; !s.Null() {
		word, _ := s.Text()
		if !s.IsText() || word == "" || len(word) > maxWordBytes {
			return match{}, fmt.Errorf("%w: status", errMemberOfSIM)
		}
		state := stateOf(word)
		m.reading.State = &state
	}
	if p := member[simProfiles]; !p.Null() {
		var err error
		if m.profiles, err = decodeProfiles(p); err != nil {
			return match{}, err
		}
	}
	active, _ := member[simActiveProfile].Text()
	m.reading.ICCID = m.card(active)
	return m, nil
}

var profileNames = []string{"iccid"}

func decodeProfiles(v carrier.JSON) ([]profile, error) {
	var out []profile
	err := v.Members(func(name, value carrier.JSON) error {
		if value.Null() {
			return nil
		}
		var member [1]carrier.JSON
		if err := value.Pick(member[:], profileNames); err != nil {
			return err
		}
		text, _ := member[0].Text()
		// An ICCID that does not parse is left out: the simId still names the SIM.
		if iccid, err := simwarden.ParseICCID(text); err == nil {
			out = append(out, profile{name.Name(), iccid})
		}
		return nil
	})
	return out, err
}

// card chooses the ICCID that names the SIM: the profile whose number the simId is (it normally
// is the first profile's), else the active one, else the only one, else the simId itself.
func (m match) card(active string) simwarden.ICCID {
	named, err := simwarden.ParseICCID(m.reading.Key)
	var chosen simwarden.ICCID
	for _, p := range m.profiles {
		switch {
		case err == nil && p.iccid.SameCard(named):
			return p.iccid
		case p.id == active || len(m.profiles) == 1:
			chosen = p.iccid
		}
	}
	if chosen.IsZero() && len(m.profiles) == 0 && err == nil {
		return named
	}
	return chosen
}

var loginNames = []string{"apiKey", "token"}

func decodeLogin(body []byte) (*token, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return nil, err
	}
	var member [2]carrier.JSON
	if err := doc.Pick(member[:], loginNames); err != nil {
		return nil, err
	}
	if !member[0].IsText() || !member[1].IsText() {
		return nil, errNoLogin
	}
	tok := &token{}
	tok.apiKey, _ = member[0].Text()
	tok.value, _ = member[1].Text()
	for _, s := range []string{tok.apiKey, tok.value} {
		if !headerSafe(s) {
			return nil, errNoLogin
		}
	}
	return tok, nil
}

// headerSafe says that the text can be sent as a header: visible ASCII, of sane length.
func headerSafe(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= 8192
}
