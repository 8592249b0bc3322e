package store_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

func TestTokensAreKeptTouchedAndRevoked(t *testing.T) {
	// B6: a hash, the last use at most once a minute, an end for good.
	s, pool := open(t)
	hash := bytes.Repeat([]byte{7}, 32)
	var made store.APIToken
	inTx(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		made, err = tx.AddToken(ctx, "id1", "anna", hash, "cli:test")
		return err
	})
	got, kept, err := s.TokenByID(t.Context(), "id1")
	if err != nil || got != made || !bytes.Equal(kept, hash) || !got.LastUsedAt.IsZero() || !got.RevokedAt.IsZero() {
		t.Fatalf("%+v with %x, want %+v: %v", got, kept, made, err)
	}
	if _, _, err := s.TokenByID(t.Context(), "id2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("one that is not there: %v, want ErrNotFound", err)
	}
	used := func() time.Time {
		t.Helper()
		list, err := s.Tokens(t.Context(), 10)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d tokens: %v", len(list), err)
		}
		return list[0].LastUsedAt
	}
	if err := s.TouchToken(t.Context(), "id1", time.Minute); err != nil {
		t.Fatal(err)
	}
	first := used()
	if err := s.TouchToken(t.Context(), "id1", time.Minute); err != nil {
		t.Fatal(err)
	}
	if again := used(); first.IsZero() || !again.Equal(first) {
		t.Errorf("a second use within the minute: %s, then %s", first, again)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE api_token SET last_used_at = last_used_at - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	if err := s.TouchToken(t.Context(), "id1", time.Minute); err != nil {
		t.Fatal(err)
	}
	if later := used(); later.Before(first) {
		t.Errorf("a use a minute later is not noted: %s, before %s", later, first)
	}
	for _, want := range []bool{true, false} {
		inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
			was, err := tx.RevokeToken(ctx, "id1")
			if was != want {
				t.Errorf("revoked: was good %v, want %v", was, want)
			}
			return err
		})
	}
	err = s.InTx(t.Context(), func(tx *store.Tx) error { _, err := tx.RevokeToken(t.Context(), "id2"); return err })
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoke one that is not there: %v, want ErrNotFound", err)
	}
}
