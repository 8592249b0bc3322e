package rules

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Bounds of an error rule (F47): Go's regexp takes time linear in the text, but with a factor as
// large as the compiled pattern.
const (
	MaxPatternBytes        = 256
	MaxPatternInstructions = 1000
	MaxMessageBytes        = 4 << 10
)

// compile checks one rule within the bounds of F47.
func compile(rule carrier.Rule) (compiledRule, error) {
	out := compiledRule{rule: rule, contains: strings.ToLower(rule.Contains)}
	switch {
	case !slices.Contains(carrier.Classes(), rule.Class):
		return out, fmt.Errorf("class %q does not exist", rule.Class)
	case rule.Operation != "" && !slices.Contains(simwarden.Operations(), rule.Operation):
		return out, fmt.Errorf("operation %q does not exist", rule.Operation)
	case rule.Extended != "" && !slices.Contains(simwarden.ExtendedStates(), rule.Extended):
		return out, fmt.Errorf("extended state %q does not exist", rule.Extended)
	case rule.ChangesOnly && rule.ReadsOnly:
		return out, fmt.Errorf("changes only and reads only leave nothing to match")
	case rule.HTTPStatus != 0 && (rule.HTTPStatus < 1 || rule.HTTPStatus > 599 || rule.HTTPStatus > 5 && rule.HTTPStatus < 100):
		return out, fmt.Errorf("HTTP status %d is neither a status nor the first digit of one", rule.HTTPStatus)
	case rule.RetryAfterMin < 0:
		return out, fmt.Errorf("a wait of %s is negative", rule.RetryAfterMin)
	case len(rule.Contains) > MaxPatternBytes:
		return out, fmt.Errorf("the text to find has %d bytes, at most %d are allowed", len(rule.Contains), MaxPatternBytes)
	case rule.Pattern == "":
		return out, nil
	}
	pattern, err := compilePattern(rule.Pattern)
	out.pattern = pattern
	return out, err
}

func compilePattern(text string) (*regexp.Regexp, error) {
	if len(text) > MaxPatternBytes {
		return nil, fmt.Errorf("the pattern has %d bytes, at most %d are allowed", len(text), MaxPatternBytes)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("read the pattern: %w", err)
	}
	// Compiling is the costly step itself: a short pattern can unfold to a quarter of a million instructions.
	if n := unfolded(parsed); n > 2*MaxPatternInstructions {
		return nil, tooMany(n)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("compile the pattern: %w", err)
	}
	if n := len(program.Inst); n > MaxPatternInstructions {
		return nil, tooMany(n)
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("compile the pattern: %w", err)
	}
	return pattern, nil
}

func tooMany(n int) error {
	return fmt.Errorf("the pattern needs about %d instructions, at most %d are allowed; write fewer repetitions", n, MaxPatternInstructions)
}

// unfolded estimates how many instructions a pattern has once its repetitions are written out,
// without writing them out. It stops counting at a million.
func unfolded(re *syntax.Regexp) int {
	const enough = 1_000_000
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+unfolded(sub), enough)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min+1, re.Max) // counts are at most 1000 (regexp/syntax), so this fits
	}
	return min(n, enough)
}
