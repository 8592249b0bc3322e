package api

import "context"

type diffList struct {
	Paging
	Account string `query:"account" maxLength:"64" doc:"An account's name"`
}

func (r *rest) diffs() {
	on(r, get("/diff", "list-diff", "List SIMs that are not as they should be, and what would be ordered if their accounts acted; a page may be short, or empty, and go on"),
		func(ctx context.Context, in *diffList) (Page[SIMDifference], error) {
			return r.service.DiffPage(ctx, in.Account, in.Cursor, in.Limit)
		})
}
