package onelink

import (
	"fmt"

	"github.com/simwarden/simwarden/carrier"
)

// decodeNumber reads the number of an order or a job out of the answer to a change.
func decodeNumber(result carrier.JSON, name string) (string, error) {
	row, err := only(result)
	if err != nil {
		return "", err
	}
	var member [1]carrier.JSON
	if err := row.Pick(member[:], []string{name}); err != nil {
		return "", err
	}
	number, err := text(member[0], name)
	if err == nil {
		err = carrier.CheckKey(number)
	}
	return number, err
}

var orderNames = []string{"orderNum", "status"}

// decodeOrder reads how far an order is. A word that nobody knows counts as over: the state, which is
// read next, tells.
func decodeOrder(result carrier.JSON, number string) (carrier.JobState, error) {
	row, err := only(result)
	if err != nil {
		return carrier.JobState{}, err
	}
	var member [2]carrier.JSON
	if err := row.Pick(member[:], orderNames); err != nil {
		return carrier.JobState{}, err
	}
	if named, _ := member[0].Text(); named != "" && named != number {
		return carrier.JobState{}, fmt.Errorf("%w: another order", errMember)
	}
	word, err := text(member[1], orderNames[1])
	if err != nil {
		return carrier.JobState{}, err
	}
	switch word {
	case "acknowledged", "ready", "future", "inProgress", "amending", "suspended", "cancelling":
		return carrier.JobState{}, nil
	case "failed", "aborted", "cancelled":
		return failed(codeOrderFailed, "the carrier's order is "+word), nil
	}
	return carrier.JobState{Finished: true}, nil
}

func failed(code, message string) carrier.JobState {
	return carrier.JobState{Finished: true, Err: &carrier.Error{Code: carrier.Plain(code, maxCodeBytes), Message: carrier.Plain(message, maxMessageBytes)}}
}

var (
	jobNames    = []string{"jobStatus", "resultList"}
	jobRowNames = []string{"resultId", "status", "message"}
)

// decodeJob reads what became of one SIM in a batch: 0 and 1 are under way, 2 is done, 3 done with
// failures, 4 failed. A SIM that the results leave out, or a status that nobody knows, counts as over.
func decodeJob(result carrier.JSON, msisdn string) (carrier.JobState, error) {
	row, err := only(result)
	if err != nil {
		return carrier.JobState{}, err
	}
	var member [2]carrier.JSON
	if err := row.Pick(member[:], jobNames); err != nil {
		return carrier.JobState{}, err
	}
	status, err := text(member[0], jobNames[0])
	if err != nil {
		return carrier.JobState{}, err
	}
	switch status {
	case "0", "1":
		return carrier.JobState{}, nil
	case "4":
		return failed(codeOrderFailed, "the carrier's job has failed"), nil
	}
	out := carrier.JobState{Finished: true}
	if member[1].Null() {
		return out, nil
	}
	err = member[1].Elements(func(v carrier.JSON) error {
		var part [3]carrier.JSON
		if err := v.Pick(part[:], jobRowNames); err != nil {
			return err
		}
		number, _ := part[0].Text()
		code, ok := part[1].Text()
		if !ok {
			return fmt.Errorf("%w: status", errMember)
		}
		if number == "" || bare(number) != bare(msisdn) || code == codeOK {
			return nil
		}
		message, _ := part[2].Text()
		out = failed(code, message)
		return nil
	})
	return out, err
}
