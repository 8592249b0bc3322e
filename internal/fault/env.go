package fault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// EnvName is the environment variable that arms points in a process of its own.
const EnvName = "SIMWARDEN_FAULT"

// Action is what an armed point does to its own process.
type Action string

// The actions. Kill is SIGKILL: nothing is flushed, closed or rolled back by us. Stop is SIGSTOP:
// the process stands still until SIGCONT, as in a long pause of its machine (F3).
const (
	Kill Action = "kill"
	Stop Action = "stop"
)

// Arming is one order of the environment variable: do Action at the Nth hit of Point (from 1),
// once.
type Arming struct {
	Point  string
	Action Action
	Nth    uint64
}

// maxArmings bounds one value of the variable: pairs of points are what F2 asks for.
const maxArmings = 32

// Parse reads the variable's value: "point=kill", "point=stop:3", several with commas between.
// The Nth hit is the first when it is not given. It does not look whether the points exist.
func Parse(value string) ([]Arming, error) {
	parts := strings.Split(value, ",")
	if len(parts) > maxArmings {
		return nil, fmt.Errorf("read %s: %d points, at most %d can be armed", EnvName, len(parts), maxArmings)
	}
	armings := make([]Arming, 0, len(parts))
	seen := map[string]bool{}
	for _, part := range parts {
		arming, err := parseOne(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("read %s: %q: %w", EnvName, part, err)
		}
		if seen[arming.Point] {
			return nil, fmt.Errorf("read %s: point %q is armed twice", EnvName, arming.Point)
		}
		seen[arming.Point] = true
		armings = append(armings, arming)
	}
	return armings, nil
}

func parseOne(text string) (Arming, error) {
	name, order, found := strings.Cut(text, "=")
	if !found || !names.MatchString(name) {
		return Arming{}, errors.New("want point=kill[:n] or point=stop[:n]")
	}
	action, count, counted := strings.Cut(order, ":")
	arming := Arming{Point: name, Action: Action(action), Nth: 1}
	if arming.Action != Kill && arming.Action != Stop {
		return Arming{}, fmt.Errorf("unknown action %q, want kill or stop", action)
	}
	if counted {
		n, err := strconv.ParseUint(count, 10, 32)
		if err != nil || n == 0 {
			return Arming{}, fmt.Errorf("hit %q is not a whole number from 1", count)
		}
		arming.Nth = n
	}
	return arming, nil
}

// ArmFromEnv arms the points that the environment variable SIMWARDEN_FAULT names, and says so on
// stderr; without the variable it does nothing. Main calls it once, before any work. An error
// means that nothing was armed and that the process should not start: a test that believes in a
// crash which never comes proves nothing.
func ArmFromEnv() error {
	value, ok := os.LookupEnv(EnvName)
	if !ok || value == "" {
		return nil
	}
	return arm(value, os.Stderr, signalSelf)
}

func arm(value string, log io.Writer, do func(Action)) error {
	armings, err := Parse(value)
	if err != nil {
		return err
	}
	targets := make([]*P, len(armings))
	for i, arming := range armings {
		if targets[i] = find(arming.Point); targets[i] == nil {
			return fmt.Errorf("arm %s: no point is named %q; the points are: %s",
				EnvName, arming.Point, strings.Join(Points(), ", "))
		}
	}
	for i, arming := range armings {
		var hits atomic.Uint64
		f := func() {
			if hits.Add(1) == arming.Nth {
				do(arming.Action)
			}
		}
		targets[i].armed.Store(&f)
		_, _ = fmt.Fprintf(log, "fault: armed, this process will %s itself at hit %d of %s\n",
			arming.Action, arming.Nth, arming.Point)
	}
	return nil
}

// signalSelf does not return from Kill. The signal is the kernel's business and may come a moment
// after kill(2) has returned, when another thread is running us: block until it does.
func signalSelf(action Action) {
	signal := syscall.SIGSTOP
	if action == Kill {
		signal = syscall.SIGKILL
	}
	if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
		panic(fmt.Sprintf("fault: send %s to myself: %v", signal, err))
	}
	if action == Kill {
		select {}
	}
}
