package onelink

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden/carrier"
)

var usageNames = []string{"dataAmount"}

// decodeUsage reads the KB of one SIM, in bytes. A blank says that it has used nothing, or has no
// plan to use.
func decodeUsage(result carrier.JSON) (int64, error) {
	row, err := only(result)
	if err != nil {
		return 0, err
	}
	var member [1]carrier.JSON
	if err := row.Pick(member[:], usageNames); err != nil {
		return 0, err
	}
	amount, ok := member[0].Text()
	if !ok || !member[0].IsText() {
		return 0, fmt.Errorf("%w: dataAmount", errMember)
	}
	if strings.TrimSpace(amount) == "" {
		return 0, nil
	}
	return kilobytes(amount)
}

// maxFraction is how many decimals of a KB are read: beyond them is less than a byte.
const maxFraction = 6

// kilobytes reads a number of KB of 1,024 bytes as text, whole or with decimals, in bytes, rounded
// down: usage is a lower bound.
func kilobytes(amount string) (int64, error) {
	whole, fraction, point := strings.Cut(strings.TrimSpace(amount), ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || n > math.MaxInt64/kilobyte-1 || point && fraction == "" {
		return 0, carrier.ErrBytes
	}
	bytes := int64(n) * kilobyte
	if !point {
		return bytes, nil
	}
	for i := range len(fraction) {
		if fraction[i] < '0' || fraction[i] > '9' {
			return 0, carrier.ErrBytes
		}
	}
	fraction = fraction[:min(len(fraction), maxFraction)]
	part, err := strconv.ParseUint(fraction, 10, 63)
	if err != nil {
		return 0, carrier.ErrBytes
	}
	unit := uint64(1)
	for range fraction {
		unit *= 10
	}
	return bytes + int64(part*kilobyte/unit), nil
}

var (
	batchNames = []string{"deadLine", "dataAmountList"}
	rowNames   = []string{"msisdn", "dataAmount"}
)

// decodeUsageRows reads a batch of usage. A SIM whose figure is blank has none yet and is left out.
func decodeUsageRows(result carrier.JSON) (usageRows, error) {
	rows := usageRows{bytes: map[string]int64{}}
	err := result.Elements(func(entry carrier.JSON) error {
		var member [2]carrier.JSON
		if err := entry.Pick(member[:], batchNames); err != nil {
			return err
		}
		if day, _ := member[0].Text(); day != "" {
			at, err := time.ParseInLocation("20060102", day, zone)
			if err != nil {
				return fmt.Errorf("%w: deadLine", errMember)
			}
			rows.trueAt = at.AddDate(0, 0, 1).UTC() // the day named is counted in whole
		}
		if member[1].Null() {
			return nil
		}
		return member[1].Elements(rows.add)
	})
	return rows, err
}

func (r usageRows) add(row carrier.JSON) error {
	var member [2]carrier.JSON
	if err := row.Pick(member[:], rowNames); err != nil {
		return err
	}
	msisdn, err := text(member[0], rowNames[0])
	if err != nil {
		return err
	}
	amount, ok := member[1].Text()
	if !ok || !member[1].IsText() {
		return fmt.Errorf("%w: dataAmount", errMember)
	}
	msisdn = bare(msisdn)
	if _, twice := r.bytes[msisdn]; twice {
		return fmt.Errorf("%w: a SIM has two rows", errMember)
	}
	if strings.TrimSpace(amount) == "" {
		return nil
	}
	r.bytes[msisdn], err = kilobytes(amount)
	return err
}

// bare gives a number as this carrier writes it, without the country's 86: its own have 11 or 13
// digits and begin with 1.
func bare(msisdn string) string {
	rest, ok := strings.CutPrefix(msisdn, "86")
	if ok && strings.HasPrefix(rest, "1") && (len(rest) == 11 || len(rest) == 13) {
		return rest
	}
	return msisdn
}
