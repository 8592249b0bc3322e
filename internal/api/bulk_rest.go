package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// maxBulkBodyBytes holds 100,000 ICCIDs of 20 characters with quotes, commas and blanks.
const maxBulkBodyBytes = 4 << 20

// bodyLimit is how large a request's body may be.
func bodyLimit(r *http.Request) int64 {
	if strings.HasPrefix(r.URL.Path, Prefix+"/bulk") {
		return maxBulkBodyBytes
	}
	return maxBodyBytes
}

// BulkFilter is a filter of SIMs as it is written in a body; fields left out narrow nothing.
type BulkFilter struct {
	Account  string `json:"account,omitempty" maxLength:"64" doc:"An account's name"`
	State    string `json:"state,omitempty" maxLength:"32"`
	Desired  string `json:"desired,omitempty" maxLength:"32" doc:"What the last decision wants"`
	Reason   string `json:"reason,omitempty" maxLength:"32" doc:"Those for which this reason holds, the first or not"`
	Drifting bool   `json:"drifting,omitempty" doc:"Only those not as wanted with nothing under way"`
	Paused   bool   `json:"paused,omitempty" doc:"Only those whose polling a person has paused"`
	Closed   bool   `json:"closed,omitempty" doc:"Only those whose polling is closed, since the carrier blocks them or has ended them"`
	Extended string `json:"extended_state,omitempty" maxLength:"32"`
	Search   string `json:"search,omitempty" maxLength:"64" doc:"The beginning of an ICCID or label"`
}

// BulkChoice is which SIMs to act on, and how. It is exported because huma sees no field in a type that is not.
type BulkChoice struct {
	Direction simwarden.Direction `json:"direction" enum:"suspend,resume"`
	ICCIDs    []string            `json:"iccids,omitempty" maxItems:"100000" doc:"As people write them; this or a filter"`
	Filter    *BulkFilter         `json:"filter,omitempty"`
}

type bulkPreview struct {
	Body BulkChoice `nameHint:"BulkPreviewRequest"`
}

type bulkStart struct {
	Body struct {
		BulkChoice
		Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log and whoever asks later"`
		AtMost  int    `json:"at_most,omitempty" minimum:"0" maximum:"100000" doc:"Refuse where it is about more SIMs than so many, such as the preview said; 0: 100000"`
		SkipBad bool   `json:"skip_bad,omitempty" doc:"Leave out ICCIDs that name no SIM; without it one refuses the action"`
	} `nameHint:"BulkRequest"`
}

// BulkPath names a bulk action.
type BulkPath struct {
	ID int64 `path:"id" minimum:"1"`
}

type bulkItems struct {
	BulkPath
	Paging
	Outcome string `query:"outcome" maxLength:"32" doc:"Those that came out so"`
}

// BulkView is a bulk action with a page of what came of its SIMs.
type BulkView struct {
	BulkStatus
	Results Page[store.BulkItem] `json:"results"`
}

// BulkCancelled is what came of a cancellation.
type BulkCancelled struct {
	Bulk    BulkStatus `json:"bulk"`
	Changed bool       `json:"changed" doc:"False where it had ended"`
}

func (t BulkChoice) target() BulkTarget {
	out := BulkTarget{ICCIDs: t.ICCIDs}
	if f := t.Filter; f != nil {
		out.Filter = SIMQuery{Account: f.Account, State: simwarden.State(f.State), Desired: simwarden.Desired(f.Desired), Reason: simwarden.Reason(f.Reason),
			Drifting: f.Drifting, Paused: f.Paused, Closed: f.Closed, Extended: simwarden.ExtendedState(f.Extended), Search: f.Search}
	}
	return out
}

func large(op huma.Operation) huma.Operation {
	op.MaxBodyBytes = maxBulkBodyBytes
	return op
}

func (r *rest) bulks() {
	on(r, large(looks(post("/bulk/preview", "preview-bulk", "Say what a bulk suspend or resume would be about, what to mind and how long it takes at least"))),
		func(ctx context.Context, in *bulkPreview) (BulkPreview, error) {
			return r.service.PreviewBulk(ctx, in.Body.Direction, in.Body.target())
		})
	on(r, large(created(post("/bulk", "start-bulk", "Suspend or resume many SIMs in the background"))), func(ctx context.Context, in *bulkStart) (store.BulkAction, error) {
		return r.service.StartBulk(ctx, BulkOrder{Direction: in.Body.Direction, Reason: in.Body.Reason, Target: in.Body.target(),
			AtMost: in.Body.AtMost, SkipBad: in.Body.SkipBad}, actorOf(ctx))
	})
	on(r, get("/bulk", "list-bulk", "List bulk actions, newest first"), func(ctx context.Context, in *struct{ Paging }) (Page[store.BulkAction], error) {
		return r.service.Bulks(ctx, in.Cursor, in.Limit)
	})
	on(r, get("/bulk/{id}", "get-bulk", "Get a bulk action with what came of each SIM"), func(ctx context.Context, in *bulkItems) (BulkView, error) {
		b, err := r.service.Bulk(ctx, in.ID)
		if err != nil {
			return BulkView{}, err
		}
		page, err := r.service.BulkItems(ctx, in.ID, store.BulkOutcome(in.Outcome), in.Cursor, in.Limit)
		return BulkView{b, page}, err
	})
	on(r, post("/bulk/{id}/cancel", "cancel-bulk", "End a bulk action; what was ordered stays"), func(ctx context.Context, in *BulkPath) (BulkCancelled, error) {
		b, changed, err := r.service.CancelBulk(ctx, in.ID, actorOf(ctx))
		return BulkCancelled{b, changed}, err
	})
}
