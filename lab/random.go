package lab

// mix is splitmix64: a well spread 64-bit value for each input. All of the lab's choices are
// made with it, so that they hang on the seed alone.
func mix(values ...uint64) uint64 {
	var h uint64
	for _, v := range values {
		h += v + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// unit is a seeded value in [0, 1).
func unit(values ...uint64) float64 { return float64(mix(values...)>>11) / (1 << 53) }
