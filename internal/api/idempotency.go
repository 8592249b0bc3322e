package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// KeepAnswers is how long a request with an idempotency key gets the same answer again. What moves
// money keeps the key itself for good, in the book.
const KeepAnswers = 7 * 24 * time.Hour

const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotent-Replayed"
	keyDoc       = "Makes the request happen once: sent again with the same key it is answered as the first time, with the header " + replayHeader +
		"; another request with the key is a 409, and so is one while the first is under way. A request that was refused has used no key. Keys belong to the token and are kept for 7 days, those of what moves money for good"
)

// Idempotent is for requests that pass their key on to the book.
type Idempotent struct{ Key string }

// Resolve takes the key from the header, for huma.
func (i *Idempotent) Resolve(ctx huma.Context) []error {
	i.Key = ctx.Header(keyHeader)
	return nil
}

const keyLooks = "looks"

// looks marks a POST that changes nothing by our word: its key says nothing. Some look at a carrier, for
// which no transaction may be open.
func looks(op huma.Operation) huma.Operation {
	op.Metadata = map[string]any{keyLooks: true}
	return op
}

// happensOnce says whether an operation heeds idempotency keys: each POST that changes something does.
func happensOnce(op huma.Operation) bool {
	return op.Method == http.MethodPost && op.Metadata[keyLooks] == nil
}

// describeKey writes the header into an operation's description.
func describeKey(op *huma.Operation) {
	if happensOnce(*op) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: keyHeader, In: "header", Description: keyDoc,
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(maxKey)}})
	}
}

// keyed is a request with an idempotency key.
type keyed struct {
	key    string
	target string // its method and path
	body   bytes.Buffer
	answer []byte // what is answered, as it is written
	again  bool   // it was answered before
}

// takeKeys notes a request's idempotency key, and its body as it is read: within the limit of bodies.
func takeKeys(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(keyHeader)
		if key == "" || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		if err := checkKey(key); err != nil {
			writeProblem(w, r, newProblem(http.StatusUnprocessableEntity, "bad_input", told(err)))
			return
		}
		k := &keyed{key: key, target: r.Method + " " + r.URL.Path}
		r = r.WithContext(context.WithValue(r.Context(), keyKeyed, k))
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &k.body), r.Body}
		next.ServeHTTP(w, r)
	})
}

func keyedOf(ctx context.Context) *keyed {
	k, _ := ctx.Value(keyKeyed).(*keyed)
	return k
}

// fingerprint tells the request from others: JSON that says the same is the same.
func (k *keyed) fingerprint() []byte {
	body := k.body.Bytes()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var tree any
	if decoder.Decode(&tree) == nil {
		if text, err := json.Marshal(tree); err == nil {
			body = text
		}
	}
	sum := sha256.Sum256(append([]byte(k.target+"\n"), body...))
	return sum[:]
}

// once runs do in one transaction with its key and its answer (F51); where the key has been answered
// it runs nothing. The answer is in k then.
func once(ctx context.Context, s *Service, k *keyed, do func(context.Context) (any, error)) error {
	principal, print := actorOf(ctx), k.fingerprint()
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		kept, err := tx.TakeKey(ctx, principal, k.key, tx.At.Add(-KeepAnswers))
		switch {
		case err == nil && !slices.Equal(kept.Fingerprint, print):
			return ledger.ErrKeyReused
		case err == nil:
			k.answer, k.again = kept.Answer, true
			return nil
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		answer, err := do(store.Carry(ctx, tx))
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := huma.DefaultJSONFormat.Marshal(&text, answer); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		k.answer, k.again = text.Bytes(), false
		return tx.KeepAnswer(ctx, principal, k.key, store.KeptAnswer{Fingerprint: print, Answer: k.answer})
	})
}

// sayAgain puts the answer that was kept in the place of an answer.
func sayAgain(ctx huma.Context, _ string, v any) (any, error) {
	k := keyedOf(ctx.Context())
	if _, isProblem := v.(*Problem); k == nil || k.answer == nil || isProblem {
		return v, nil
	}
	if k.again {
		ctx.SetHeader(replayHeader, "true")
	}
	return json.RawMessage(k.answer), nil
}
