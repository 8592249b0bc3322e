package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/simwarden/simwarden/carrier"
)

// AccountTested is what came of one harmless call with an account's credentials.
type AccountTested struct {
	Account string     `json:"account"`
	OK      bool       `json:"ok" doc:"The carrier took the credentials"`
	WhyNot  *CarrierNo `json:"why_not,omitempty"`
	Advice  string     `json:"advice,omitempty" doc:"What to do about it"`
	// Err is the whole error, for whoever runs the program itself.
	Err error `json:"-"`
}

// TestAccount asks an account's carrier something harmless, for a person who wants to know whether it
// works. It is counted as a person's call and audited, as a refresh is.
func (s *Service) TestAccount(ctx context.Context, name, actor string) (AccountTested, error) {
	if s.Asker == nil {
		return AccountTested{}, ErrNoAsker
	}
	a, err := s.Store.AccountByName(ctx, name)
	if err != nil {
		return AccountTested{}, err
	}
	if err := s.countCall(ctx, actor, "account_test", 0, a.ID); err != nil {
		return AccountTested{}, err
	}
	ask, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	out := AccountTested{Account: a.Name, Err: s.Asker.Probe(ask, a.ID)}
	if out.OK = out.Err == nil; !out.OK {
		out.WhyNot, out.Advice = carrierNo(out.Err), carrierAdvice(out.Err, a.Name)
	}
	return out, nil
}

// carrierAdvice says what to do about a carrier's no to an account.
func carrierAdvice(err error, account string) string {
	var e *carrier.Error
	switch {
	case !errors.As(err, &e):
		return ""
	case e.Class == carrier.ClassAuth:
		return fmt.Sprintf("The carrier refuses the credentials. Give the right ones: simwarden account credentials %s --credential …; then: simwarden account start %s --reason …", account, account)
	case strings.Contains(err.Error(), "https"):
		return "For a lab on this machine add --allow-lab; a real carrier needs an https base URL."
	case e.Class == carrier.ClassStopped:
		return fmt.Sprintf("The account's calls are stopped. Mend the cause, then: simwarden account start %s --reason …", account)
	case e.BadAnswer:
		return "The answer is not the carrier's API (a web page, perhaps). Check the account's base URL."
	case e.NotSent:
		return "The carrier could not be reached. Check the base URL, DNS and the way out; a carrier on this machine needs --allow-lab."
	}
	return ""
}
