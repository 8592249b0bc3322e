package rules

import "time"

// jitterShare is how far Jitter moves a duration either way.
const jitterShare = 0.10

// Jitter moves a duration by up to 10 % either way, the same way for the same seed. It spreads
// what would otherwise come back at one instant (P1, C5).
func Jitter(d time.Duration, seed uint64) time.Duration {
	return time.Duration(float64(d) * (1 - jitterShare + 2*jitterShare*fraction(seed)))
}

// fraction maps a seed to [0, 1), evenly also for seeds that follow each other.
func fraction(seed uint64) float64 { return float64(mix(seed)>>11) / (1 << 53) }

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
