// Package all registers every driver that comes with the product. Import it for its side effect
// where drivers are looked up by name; a build of one's own imports only the drivers it wants.
package all

import (
	_ "github.com/simwarden/simwarden/carrier/onelink"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	_ "github.com/simwarden/simwarden/carrier/supersim"
)
