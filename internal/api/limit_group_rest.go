package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// otherOperations is how the limit of operations without one of their own is named in JSON, where
// an empty name is easily lost.
const otherOperations = "*"

// LimitGroupView is a limit group as it is written.
type LimitGroupView struct {
	ID        simwarden.LimitGroupID `json:"id"`
	Name      string                 `json:"name"`
	Mode      simwarden.GroupMode    `json:"mode"`
	PerSecond map[string]int         `json:"per_second" doc:"Calls a second by operation; * is those without a limit of their own"`
	CreatedAt time.Time              `json:"created_at"`
}

type limitGroupPatch struct {
	NamePath
	Body struct {
		Mode      *simwarden.GroupMode `json:"mode,omitempty" doc:"monitor or enforce"`
		PerSecond map[string]int       `json:"per_second,omitempty" doc:"Sets limits by operation, * for those without their own; 0 takes one away; the others stay"`
	} `nameHint:"LimitGroupPatch"`
}

func viewLimitGroup(g store.LimitGroup) LimitGroupView {
	v := LimitGroupView{ID: g.ID, Name: g.Name, Mode: g.Mode, PerSecond: map[string]int{}, CreatedAt: g.CreatedAt}
	for op, n := range g.PerSecond {
		if op == "" {
			op = otherOperations
		}
		v.PerSecond[string(op)] = n
	}
	return v
}

func (r *rest) limitGroups() {
	on(r, get("/limit-groups", "list-limit-groups", "List the limit groups"), func(ctx context.Context, _ *struct{}) (items[LimitGroupView], error) {
		list, err := r.service.LimitGroups(ctx)
		out := items[LimitGroupView]{Items: make([]LimitGroupView, len(list))}
		for i, g := range list {
			out.Items[i] = viewLimitGroup(g)
		}
		return out, err
	})
	on(r, patch("/limit-groups/{name}", "change-limit-group", "Change a limit group's mode or limits"),
		func(ctx context.Context, in *limitGroupPatch) (LimitGroupView, error) {
			c := LimitGroupChange{Mode: in.Body.Mode, PerSecond: map[simwarden.Operation]int{}}
			for op, n := range in.Body.PerSecond {
				switch op {
				case otherOperations:
					op = ""
				case "":
					return LimitGroupView{}, badInput("an operation without a name; %s stands for those without a limit of their own", otherOperations)
				}
				c.PerSecond[simwarden.Operation(op)] = n
			}
			g, err := r.service.ChangeLimitGroup(ctx, in.Name, c, actorOf(ctx))
			return viewLimitGroup(g), err
		})
}
