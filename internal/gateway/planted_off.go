//go:build !planted

package gateway

import "github.com/simwarden/simwarden/internal/store"

func plantedLease(got store.SlotLease) store.SlotLease { return got }
