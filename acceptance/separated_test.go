package acceptance

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/carrier/soracom"
)

// separated is a carrier that has a word for a SIM that was stopped because it was taken out of its
// device: Soracom's API, whose "standby" says so here. No driver of the product reads such a word.
const (
	separated     = "separated"
	separatedWord = "standby"
)

func init() { carrier.Register(separated, separatedDriver{}) }

// dialectOf is what the lab speaks for a driver.
func dialectOf(driver string) string {
	if driver == separated || driver == narrow {
		return "soracom"
	}
	return driver
}

type separatedDriver struct{ soracom.Driver }

func (d separatedDriver) Info() carrier.Info {
	info := d.Driver.Info()
	info.Name, info.Title = separated, "a carrier that tells separated SIMs"
	return info
}

func (d separatedDriver) Open(c carrier.Config) (carrier.Conn, error) {
	conn, err := d.Driver.Open(c)
	if err != nil {
		return nil, err
	}
	return separatedConn{conn, conn.(carrier.Resolver), conn.(carrier.UsageReader)}, nil
}

// separatedConn reads SIMs one by one: a list would have to be translated as well.
type separatedConn struct {
	carrier.Conn
	carrier.Resolver
	carrier.UsageReader
}

func (c separatedConn) State(ctx context.Context, sim carrier.SIMRef) (simwarden.Reading, error) {
	r, err := c.Conn.State(ctx, sim)
	if err == nil && r.State != nil && r.State.Raw == separatedWord {
		state := *r.State
		state.Extended = simwarden.ExtendedDeviceSeparated
		r.State = &state
	}
	return r, err
}
