package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// otherOperations is how the limit of operations without one of their own is named in JSON, where
// an empty name is easily lost; allOperations is how a window of all operations together is.
const (
	otherOperations = "*"
	allOperations   = "all"
)

// LimitGroupView is a limit group as it is written.
type LimitGroupView struct {
	ID                  simwarden.LimitGroupID `json:"id"`
	Name                string                 `json:"name"`
	Mode                simwarden.GroupMode    `json:"mode"`
	PerSecond           map[string]int         `json:"per_second" doc:"Calls a second by operation; * is those without a limit of their own"`
	Windows             []LimitWindowView      `json:"windows" doc:"Longer limits, which hold besides, all together"`
	MaxConcurrent       int                    `json:"max_concurrent" doc:"Calls at a time over all nodes; 0: any number"`
	CommandSharePercent int                    `json:"command_share_percent" doc:"The part of each longer window that polls leave to commands"`
	CreatedAt           time.Time              `json:"created_at"`
}

// LimitWindowView is a limit of more than a second as it is written.
type LimitWindowView struct {
	Operation string `json:"operation" doc:"An operation, or all for all of the group's calls together, logins included"`
	Seconds   int    `json:"seconds" doc:"The length of the sliding window: 60, 3600, 86400, up to 31 days"`
	Calls     int    `json:"calls"`
}

type limitWindowPatch struct {
	Operation string `json:"operation" doc:"An operation, or all"`
	Seconds   int    `json:"seconds" minimum:"1" maximum:"2678400"`
	Calls     *int   `json:"calls" doc:"null takes it away; 0 is refused"`
}

type limitGroupAdd struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"64"`
	} `nameHint:"LimitGroupRequest"`
}

type limitGroupPatch struct {
	NamePath
	Body struct {
		Mode                *simwarden.GroupMode `json:"mode,omitempty" doc:"monitor or enforce"`
		PerSecond           map[string]*int      `json:"per_second,omitempty" doc:"Sets limits by operation, * for those without their own; null takes one away, 0 is refused; the others stay"`
		Windows             []limitWindowPatch   `json:"windows,omitempty" maxItems:"100" doc:"Sets longer limits; the others stay"`
		MaxConcurrent       *int                 `json:"max_concurrent,omitempty" doc:"Calls at a time over all nodes; -1: any number; 0 is refused"`
		CommandSharePercent *int                 `json:"command_share_percent,omitempty" minimum:"0" maximum:"90" doc:"The part of each longer window that polls leave to commands"`
	} `nameHint:"LimitGroupPatch"`
}

func viewLimitGroup(g store.LimitGroup) LimitGroupView {
	v := LimitGroupView{ID: g.ID, Name: g.Name, Mode: g.Mode, PerSecond: map[string]int{}, Windows: []LimitWindowView{},
		MaxConcurrent: g.MaxConcurrent, CommandSharePercent: g.CommandSharePercent, CreatedAt: g.CreatedAt}
	for op, n := range g.PerSecond {
		if op == "" {
			op = otherOperations
		}
		v.PerSecond[string(op)] = n
	}
	for _, w := range g.Windows {
		v.Windows = append(v.Windows, LimitWindowView{windowName(w.Operation), w.Seconds, w.Calls})
	}
	return v
}

func windowName(op simwarden.Operation) string {
	if op == "" {
		return allOperations
	}
	return string(op)
}

// viewWindowChanges is how changes of windows are told in the audit log.
func viewWindowChanges(changes []WindowChange) []limitWindowPatch {
	out := make([]limitWindowPatch, len(changes))
	for i, w := range changes {
		out[i] = limitWindowPatch{windowName(w.Operation), w.Seconds, w.Calls}
	}
	return out
}

// change reads a request to change a group.
func (p *limitGroupPatch) change() (LimitGroupChange, error) {
	c := LimitGroupChange{Mode: p.Body.Mode, PerSecond: map[simwarden.Operation]*int{}, CommandSharePercent: p.Body.CommandSharePercent}
	for op, n := range p.Body.PerSecond {
		switch op {
		case otherOperations:
			op = ""
		case "":
			return c, badInput("an operation without a name; %s stands for those without a limit of their own", otherOperations)
		}
		c.PerSecond[simwarden.Operation(op)] = n
	}
	for _, w := range p.Body.Windows {
		switch w.Operation {
		case allOperations:
			w.Operation = ""
		case "":
			return c, badInput("an operation without a name; %s stands for all together", allOperations)
		}
		c.Windows = append(c.Windows, WindowChange{simwarden.Operation(w.Operation), w.Seconds, w.Calls})
	}
	if n := p.Body.MaxConcurrent; n != nil {
		if *n == anyNumber {
			n = nil
		}
		c.MaxConcurrent = &n
	}
	return c, nil
}

// anyNumber is how a group without a limit of calls at a time is asked for: absent means unchanged.
const anyNumber = -1

func (r *rest) limitGroups() {
	on(r, get("/limit-groups", "list-limit-groups", "List the limit groups"), func(ctx context.Context, _ *struct{}) (items[LimitGroupView], error) {
		list, err := r.service.LimitGroups(ctx)
		out := items[LimitGroupView]{Items: make([]LimitGroupView, len(list))}
		for i, g := range list {
			out.Items[i] = viewLimitGroup(g)
		}
		return out, err
	})
	on(r, created(post("/limit-groups", "add-limit-group", "Add a limit group for accounts to share")),
		func(ctx context.Context, in *limitGroupAdd) (LimitGroupView, error) {
			g, err := r.service.AddLimitGroup(ctx, in.Body.Name, actorOf(ctx))
			return viewLimitGroup(g), err
		})
	on(r, get("/limit-groups/{name}", "get-limit-group", "Get one limit group"), func(ctx context.Context, in *NamePath) (LimitGroupView, error) {
		g, err := r.service.LimitGroup(ctx, in.Name)
		return viewLimitGroup(g), err
	})
	on(r, patch("/limit-groups/{name}", "change-limit-group", "Change a limit group's mode or limits"),
		func(ctx context.Context, in *limitGroupPatch) (LimitGroupView, error) {
			c, err := in.change()
			if err != nil {
				return LimitGroupView{}, err
			}
			g, err := r.service.ChangeLimitGroup(ctx, in.Name, c, actorOf(ctx))
			return viewLimitGroup(g), err
		})
}
