package onelink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Why an answer is not understood.
var (
	errNotOne   = errors.New("the result has not exactly one entry")
	errMember   = errors.New("a member of the result is missing or of the wrong kind")
	errOtherSIM = errors.New("the answer is about another SIM")
)

// Why a batch is not sent.
var (
	errBatch    = fmt.Errorf("a batch has 1 to %d SIMs", batchSize)
	errNoMSISDN = errors.New("a SIM of the batch has no MSISDN, by which this call goes")
)

// only gives the one entry of a result.
func only(result carrier.JSON) (carrier.JSON, error) {
	var one carrier.JSON
	n := 0
	err := result.Elements(func(v carrier.JSON) error {
		one = v
		n++
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case n != 1 || !one.IsObject():
		return nil, errNotOne
	}
	return one, nil
}

// text gives a member that must be a text with something in it.
func text(v carrier.JSON, name string) (string, error) {
	s, _ := v.Text()
	if !v.IsText() || s == "" || len(s) > maxRawBytes {
		return "", fmt.Errorf("%w: %s", errMember, name)
	}
	return s, nil
}

var statusNames = []string{"cardStatus", "lastChangeDate"}

// decodeStatus reads the status code, and when it came about, zero where that cannot be read.
func decodeStatus(result carrier.JSON) (code string, changedAt time.Time, err error) {
	row, err := only(result)
	if err != nil {
		return "", time.Time{}, err
	}
	var member [2]carrier.JSON
	if err := row.Pick(member[:], statusNames); err != nil {
		return "", time.Time{}, err
	}
	if code, err = text(member[0], statusNames[0]); err != nil {
		return "", time.Time{}, err
	}
	at, _ := member[1].Text()
	return code, parseTime(at), nil
}

// parseTime reads a time as the carrier writes it, in UTC+8; zero where it is none.
func parseTime(s string) time.Time {
	for _, layout := range []string{timeLayout, time.DateTime} {
		if at, err := time.ParseInLocation(layout, s, zone); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

var reasonNames = []string{"stopReason", "shutdownReasonDesc"}

// decodeReason reads the digits of a stop reason, and its description where there is one.
func decodeReason(result carrier.JSON) (reason, description string, err error) {
	row, err := only(result)
	if err != nil {
		return "", "", err
	}
	var member [2]carrier.JSON
	if err := row.Pick(member[:], reasonNames); err != nil {
		return "", "", err
	}
	if reason, err = text(member[0], reasonNames[0]); err != nil {
		return "", "", err
	}
	description, _ = member[1].Text()
	return reason, strings.TrimSpace(description), nil
}

var identityNames = []string{"iccid"}

func decodeIdentity(result carrier.JSON) (string, error) {
	row, err := only(result)
	if err != nil {
		return "", err
	}
	return decodeICCID(row)
}

// decodeICCID reads a row's ICCID as the carrier writes it: the SIM's key.
func decodeICCID(row carrier.JSON) (string, error) {
	var member [1]carrier.JSON
	if err := row.Pick(member[:], identityNames); err != nil {
		return "", err
	}
	iccid, err := text(member[0], identityNames[0])
	if err == nil {
		err = carrier.CheckKey(iccid)
	}
	return iccid, err
}

var realNames = []string{"realNameStatus", "reason"}

// The reasons for which there is no real-name registration of a person. They come with status 0.
var exempt = []string{
	"01", // registered to a unit
	"02", // an eleven-digit number
	"05", // has voice or text messages
}

// decodeRealName reads the real-name status: 1 is registered, 0 is not, or, where a reason says that
// registration does not apply, exempt from it. Any other word is unknown. Raw is the status, and the
// reason behind it.
func decodeRealName(result carrier.JSON) (simwarden.RealNameReading, error) {
	row, err := only(result)
	if err != nil {
		return simwarden.RealNameReading{}, err
	}
	var member [2]carrier.JSON
	if err := row.Pick(member[:], realNames); err != nil {
		return simwarden.RealNameReading{}, err
	}
	status, err := text(member[0], realNames[0])
	if err != nil {
		return simwarden.RealNameReading{}, err
	}
	reason, _ := member[1].Text()
	reason = strings.TrimSpace(reason)
	out := simwarden.RealNameReading{Status: simwarden.RealNameUnknown, Raw: carrier.Plain(status+" "+reason, maxRawBytes)}
	switch {
	case status == "1":
		out.Status = simwarden.RealNameVerified
	case status == "0" && slices.Contains(exempt, reason):
		out.Status = simwarden.RealNameExempt
	case status == "0":
		out.Status = simwarden.RealNameUnverified
	}
	return out, nil
}

// rowsOf gives the rows of a result: its entries, or the list of one of these names within each. The
// name of the list differs by call and is not documented for all of them.
func rowsOf(result carrier.JSON, lists []string) ([]carrier.JSON, error) {
	var rows []carrier.JSON
	member := make([]carrier.JSON, len(lists))
	err := result.Elements(func(entry carrier.JSON) error {
		if err := entry.Pick(member, lists); err != nil {
			return err
		}
		within := false
		for _, list := range member {
			if list.Null() {
				continue
			}
			if within {
				return fmt.Errorf("%w: two lists", errMember)
			}
			within = true
			if err := list.Elements(func(row carrier.JSON) error {
				rows = append(rows, row)
				return nil
			}); err != nil {
				return err
			}
		}
		if !within {
			rows = append(rows, entry)
		}
		return nil
	})
	return rows, err
}

var (
	groupLists  = []string{"groupList", "groupInfoList"}
	groupNames  = []string{"groupId"}
	memberLists = []string{"memberInfoList", "memberList", "groupMemberList"}
)

// decodeGroups reads a page of groups: their ids, each once.
func decodeGroups(result carrier.JSON) ([]string, error) {
	rows, err := rowsOf(result, groupLists)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, row := range rows {
		var member [1]carrier.JSON
		if err := row.Pick(member[:], groupNames); err != nil {
			return nil, err
		}
		id, err := text(member[0], groupNames[0])
		if err != nil {
			return nil, err
		}
		if !validGroup(id) {
			return nil, fmt.Errorf("%w: groupId", errMember)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// decodeMembers reads a page of a group's SIMs: their ICCIDs.
func decodeMembers(result carrier.JSON) ([]string, error) {
	rows, err := rowsOf(result, memberLists)
	if err != nil {
		return nil, err
	}
	var iccids []string
	for _, row := range rows {
		iccid, err := decodeICCID(row)
		if err != nil {
			return nil, err
		}
		iccids = append(iccids, iccid)
	}
	return iccids, nil
}

var cardNames = []string{"status", "iccid"}

// decodeCards reads which SIMs of a batch there are. A row that has an error for a status is of one
// that there is not.
func decodeCards(result carrier.JSON) ([]string, error) {
	var iccids []string
	err := result.Elements(func(row carrier.JSON) error {
		var member [2]carrier.JSON
		if err := row.Pick(member[:], cardNames); err != nil {
			return err
		}
		if status, _ := member[0].Text(); !member[0].Null() && status != codeOK {
			return nil
		}
		iccid, err := decodeICCID(row)
		if err != nil {
			return err
		}
		iccids = append(iccids, iccid)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return iccids, nil
}
