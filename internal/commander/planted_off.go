//go:build !planted

package commander

import "github.com/simwarden/simwarden/internal/rules"

// planted says that a bug was planted; there is none in this build.
func planted(string) bool { return false }

func plantedWay(way rules.Next) rules.Next { return way }

func plantedFacts(f rules.Facts) rules.Facts { return f }
