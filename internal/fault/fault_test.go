package fault

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

var (
	pointOne = Register("faulttest.one")
	pointTwo = Register("faulttest.two.after")
)

// childEnv makes this test binary act as the process that dies: it hits both points three times.
const childEnv = "FAULTTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := ArmFromEnv(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	for i := 1; i <= 3; i++ {
		fmt.Println("one", i)
		pointOne.Hit()
		fmt.Println("two", i)
		Point("faulttest.two.after")
	}
	os.Exit(0)
}

func child(t *testing.T, value string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1", EnvName+"="+value)
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

func TestKillFromTheEnvironment(t *testing.T) {
	cmd, stdout, stderr := child(t, "faulttest.one=kill:2")
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the child ended with %v, want SIGKILL (F1)", err)
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("the child ended by %v, want SIGKILL (F1)", status.Signal())
	}
	if got, want := stdout.String(), "one 1\ntwo 1\none 2\n"; got != want {
		t.Errorf("the child got as far as %q, want %q", got, want)
	}
	if !strings.Contains(stderr.String(), "kill itself at hit 2 of faulttest.one") {
		t.Errorf("arming was not told on stderr: %q", stderr)
	}
}

func TestStopFromTheEnvironment(t *testing.T) {
	cmd, _, _ := child(t, "faulttest.two.after=stop:3")
	cmd.Stdout = nil
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	if !status.Stopped() || status.StopSignal() != syscall.SIGSTOP {
		t.Errorf("the child's status is %v, want stopped by SIGSTOP (F3)", status)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for scan := bufio.NewScanner(pipe); scan.Scan(); {
		lines++
	}
	if err := cmd.Wait(); err != nil || lines != 6 {
		t.Errorf("the child went on to %d lines and ended with %v, want 6 and no error", lines, err)
	}
}

func TestUnknownPointStopsTheStart(t *testing.T) {
	cmd, stdout, stderr := child(t, "faulttest.one=kill,cmd.clam=kill")
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || stdout.Len() > 0 {
		t.Errorf("the child ended with %v after %q, want a start error", err, stdout)
	}
	for _, want := range []string{`"cmd.clam"`, "faulttest.one, faulttest.two.after"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("the error %q does not name %s", stderr, want)
		}
	}
}

func TestNoVariableArmsNothing(t *testing.T) {
	t.Setenv(EnvName, "")
	if err := ArmFromEnv(); err != nil {
		t.Fatal(err)
	}
	for name, p := range points {
		if p.armed.Load() != nil {
			t.Errorf("%s is armed without an order", name)
		}
	}
}

func TestArmCountsHitsOfAllGoroutines(t *testing.T) {
	t.Cleanup(func() { pointOne.armed.Store(nil) })
	var log bytes.Buffer
	var kills atomic.Int32
	if err := arm("faulttest.one=kill:50", &log, func(Action) { kills.Add(1) }); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 100 {
		group.Go(pointOne.Hit)
	}
	group.Wait()
	if kills.Load() != 1 {
		t.Errorf("armed for hit 50, 100 hits fired it %d times, want once", kills.Load())
	}
}

func TestSetRestores(t *testing.T) {
	var trace []string
	outer := Set("faulttest.one", func() { trace = append(trace, "outer") })
	inner := Set("faulttest.one", func() { trace = append(trace, "inner") })
	pointOne.Hit()
	inner()
	Point(pointOne.Name())
	outer()
	pointOne.Hit()
	if want := []string{"inner", "outer"}; !slices.Equal(trace, want) {
		t.Errorf("the point did %v, want %v", trace, want)
	}
}

func TestMistakesInTheBuildPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"a name taken twice":       func() { Register("faulttest.one") },
		"a name of one part":       func() { Register("claim") },
		"a name with capitals":     func() { Register("cmd.Claim") },
		"a hit of no known point":  func() { Point("faulttest.none") },
		"a set of no known point":  func() { Set("faulttest.none", func() {}) },
		"a name with empty parts":  func() { Register("cmd..claim") },
		"a name that an env can't": func() { Register("cmd.a=b") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was let pass")
				}
			}()
			f()
		})
	}
	if !slices.Equal(Points(), []string{"faulttest.one", pointTwo.Name()}) {
		t.Errorf("the points are %v", Points())
	}
}

func TestParse(t *testing.T) {
	for _, row := range []struct {
		sentence, value string
		want            []Arming
		fails           string
	}{
		{"the first hit when no number is given", "a.b=kill", []Arming{{"a.b", Kill, 1}}, ""},
		{"a pair of points (F2)", "a.b=kill:2, a.c=stop", []Arming{{"a.b", Kill, 2}, {"a.c", Stop, 1}}, ""},
		{"no action", "a.b", nil, "want point=kill[:n]"},
		{"another action", "a.b=exit", nil, "unknown action"},
		{"hit zero", "a.b=kill:0", nil, "from 1"},
		{"a negative hit", "a.b=kill:-1", nil, "from 1"},
		{"no point", "=kill", nil, "want point=kill[:n]"},
		{"an empty part", "a.b=kill,", nil, "want point=kill[:n]"},
		{"one point twice", "a.b=kill,a.b=stop", nil, "armed twice"},
		{"more than can be meant", strings.Repeat("a.b=kill,", 40), nil, "at most 32"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			got, err := Parse(row.value)
			if row.fails == "" && err != nil || row.fails != "" && (err == nil || !strings.Contains(err.Error(), row.fails)) {
				t.Fatalf("error %v, want %q", err, row.fails)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a.b=kill")
	f.Add("a.b=stop:3,c.d=kill:1")
	f.Fuzz(func(t *testing.T, value string) {
		armings, err := Parse(value)
		if err != nil {
			return
		}
		texts := make([]string, len(armings))
		for i, a := range armings {
			texts[i] = fmt.Sprintf("%s=%s:%d", a.Point, a.Action, a.Nth)
		}
		again, err := Parse(strings.Join(texts, ","))
		if err != nil || !slices.Equal(armings, again) {
			t.Errorf("%q was read as %v, and that again as %v, %v", value, armings, again, err)
		}
	})
}

func BenchmarkHit(b *testing.B) {
	for b.Loop() {
		pointOne.Hit()
	}
}
