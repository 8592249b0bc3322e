package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// sqlError is an error of the database with its SQL state.
type sqlError string

func (e sqlError) Error() string    { return "could not extend file (SQLSTATE " + string(e) + ")" }
func (e sqlError) SQLState() string { return string(e) }

func TestTheDatabasesErrorsSayWhatToDo(t *testing.T) {
	cases := []struct {
		name string
		err  error
		says string
	}{
		{"a full disk met in the middle of a command", fmt.Errorf("add 1000 sims: %w", sqlError("53100")), "Free some space"},
		{"a password that is wrong", fmt.Errorf("database: %w", sqlError("28P01")), "Check --database-url"},
		{"a database that is not there", fmt.Errorf("database: %w", sqlError("3D000")), "createdb"},
		{"a server that is down", errors.New("database: failed to connect to `user=x`: refused"), "Check that it runs"},
		{"something that a person cannot help", fmt.Errorf("add: %w", sqlError("40001")), ""},
		{"something else", errors.New("plan \"gold\": not found"), ""},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			got := databaseAdvice(k.err)
			if (got == "") != (k.says == "") || !strings.Contains(got, k.says) {
				t.Errorf("got %q, want %q in it", got, k.says)
			}
		})
	}
}

func TestLinesThatSayTheSameAreToldOnce(t *testing.T) {
	err := errors.New("cannot connect:\n\trefused\n\trefused")
	if got := told(err); got != "cannot connect:\n\trefused" {
		t.Errorf("got %q", got)
	}
}

func TestANodeThatWasToldToStopEndsWell(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want bool
	}{
		{"work that was broken off", fmt.Errorf("make partitions: %w", context.Canceled), true},
		{"two that were", errors.Join(context.Canceled, fmt.Errorf("sweep: %w", context.Canceled)), true},
		{"one that went wrong by itself", errors.Join(context.Canceled, errors.New("disk full")), false},
		{"nothing but a fault", errors.New("disk full"), false},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			if got := onlyStopped(k.err); got != k.want {
				t.Errorf("got %v, want %v", got, k.want)
			}
		})
	}
}
