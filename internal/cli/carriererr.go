package cli

import (
	"errors"

	"github.com/simwarden/simwarden/carrier"
)

func asCarrier(err error) (*carrier.Error, bool) { return errors.AsType[*carrier.Error](err) }
