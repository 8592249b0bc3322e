package cli

import (
	"context"
	"fmt"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a token; it is shown once."`
	List   tokenListCmd   `cmd:"" help:"List tokens."`
	Revoke tokenRevokeCmd `cmd:"" help:"End a token at once."`
}

type tokenCreateCmd struct {
	Name string `arg:"" help:"Whose it is, or what for."`
}

// Run makes a token (B6).
func (c *tokenCreateCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		t, err := e.CreateToken(ctx, c.Name, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, t)
		}
		fmt.Fprintf(g.Out, "%s\n", t.Text)
		fmt.Fprintf(g.Err, "Keep it: it is not shown again. Use it as: Authorization: Bearer …\n")
		return nil
	})
}

type tokenListCmd struct{}

// Run lists the tokens.
func (c *tokenListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		tokens, err := e.Tokens(ctx)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, tokens)
		}
		now := e.Store.Now()
		t := newTable("ID", "NAME", "MADE", "BY", "LAST USED", "REVOKED")
		for _, k := range tokens {
			revoked := ""
			if !k.RevokedAt.IsZero() {
				revoked = ago(k.RevokedAt, now)
			}
			t.add(k.ID, k.Name, ago(k.CreatedAt, now), k.CreatedBy, ago(k.LastUsedAt, now), revoked)
		}
		t.print(g.Out)
		return nil
	})
}

type tokenRevokeCmd struct {
	ID string `arg:"" help:"The token's id; see: simwarden token list."`
}

// Run revokes a token.
func (c *tokenRevokeCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		was, err := e.RevokeToken(ctx, c.ID, actor())
		if err != nil {
			return fmt.Errorf("token %q: %w", c.ID, err)
		}
		if g.JSON {
			return printJSON(g.Out, map[string]any{"id": c.ID, "changed": was})
		}
		fmt.Fprintf(g.Out, "Token %s is %s.\n", c.ID, map[bool]string{true: "revoked", false: "revoked already"}[was])
		return nil
	})
}
