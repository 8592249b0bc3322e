package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/simwarden/simwarden/internal/store"
)

// anchorFile holds the heads of the audit log's chain that were kept outside of the database.
func anchorFile(dir string) string { return filepath.Join(dir, "audit-heads") }

// audited checks the audit log's chain, against the heads kept in the data directory as well (R3).
func audited(ctx context.Context, e *env) finding {
	f := finding{Check: "audit", Do: "compare the database with a backup of before; whoever could write there can have changed more"}
	heads, err := anchors(anchorFile(e.DataDir))
	if err != nil {
		f.Saw = err.Error()
		return f
	}
	r, err := e.Store.VerifyAudit(ctx, heads)
	switch {
	case err != nil:
		f.Saw, f.Do = err.Error(), "see that the database answers, and ask again"
	case r.Bad != "":
		f.Saw = fmt.Sprintf("the audit log was tampered with: %s; what is before it is as it was written", r.Bad)
	default:
		f.OK = true
		f.Saw = fmt.Sprintf("%d rows are as they were sealed, %d wait for their seal; %d of %d heads in %s agree", r.Sealed, r.Unsealed, r.Anchors, len(heads), filepath.Base(anchorFile(e.DataDir)))
	}
	return f
}

// maxAnchors bounds how many lines are read: more than a century of hours.
const maxAnchors = 1_000_000

func anchors(path string) ([]store.AuditHead, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("heads of the audit log: %w", err)
	}
	defer f.Close()
	var out []store.AuditHead
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan() && n <= maxAnchors; n++ {
		head, err := store.ParseAuditHead(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", n, filepath.Base(path), err)
		}
		out = append(out, head)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("heads of the audit log: %w", err)
	}
	return out, nil
}

// guarded tells of each guard that stops lapsing (C10).
func guarded(ctx context.Context, e *env) []finding {
	list, err := e.Guards(ctx, false)
	if err != nil {
		return []finding{{Check: "guard", Saw: err.Error()}}
	}
	var out []finding
	for _, g := range list {
		out = append(out, finding{Check: "guard", Saw: fmt.Sprintf("%s: %s", g.Kind, g.Because),
			Do: fmt.Sprintf("mend the cause, then: simwarden guard release %d --reason …", g.ID)})
	}
	return out
}
