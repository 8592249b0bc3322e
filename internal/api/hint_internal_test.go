package api

import "testing"

// A problem without a word on what to do leaves a person alone; only where the detail always has it
// there is no hint.
func TestEveryKindOfProblemHasAHint(t *testing.T) {
	codes := []string{}
	for _, row := range problems {
		codes = append(codes, row.code)
	}
	for _, row := range passing {
		codes = append(codes, row.code)
	}
	for _, code := range statusCodes {
		codes = append(codes, code)
	}
	for _, code := range codes {
		if code != "bad_input" && hints[code] == "" {
			t.Errorf("%s has no hint", code)
		}
	}
}
