package supersim

import (
	"errors"
	"net/http"

	"github.com/simwarden/simwarden/carrier"
)

// authorizer puts an account's credentials on a request. Twilio's host takes them with each
// request; the other host of this API wants a token, whose fetching belongs here too.
type authorizer interface {
	authorize(*http.Request) error
	// secrets lists what must not be in a message.
	secrets() []string
}

func credentialFields() []carrier.Field {
	return []carrier.Field{
		{Name: "account_sid", Help: "account SID (AC...), with auth_token"},
		{Name: "auth_token", Help: "the account's auth token", Secret: true},
		{Name: "api_key_sid", Help: "API key SID (SK...), with api_key_secret: in place of the account's own"},
		{Name: "api_key_secret", Help: "the API key's secret", Secret: true},
	}
}

// basic is HTTP Basic authentication, RFC 7617.
type basic struct{ user, password string }

// newBasic takes the API key where both its parts are there, else the account's own pair.
func newBasic(credentials map[string]string) (basic, error) {
	key := basic{credentials["api_key_sid"], credentials["api_key_secret"]}
	own := basic{credentials["account_sid"], credentials["auth_token"]}
	switch {
	case key.user != "" && key.password != "":
		return key, nil
	case key.user != "":
		return basic{}, errors.New("credential api_key_secret is missing")
	case key.password != "":
		return basic{}, errors.New("credential api_key_sid is missing")
	case own.user == "":
		return basic{}, errors.New("credential account_sid is missing, or api_key_sid with api_key_secret")
	case own.password == "":
		return basic{}, errors.New("credential auth_token is missing")
	}
	return own, nil
}

func (b basic) authorize(req *http.Request) error {
	req.SetBasicAuth(b.user, b.password)
	return nil
}

func (b basic) secrets() []string { return []string{b.password} }
