package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

type statementRow struct {
	ICCID  string `json:"iccid" minLength:"1" maxLength:"64"`
	Period string `json:"period" minLength:"7" maxLength:"7" doc:"The month it is for" example:"2026-05"`
	Item   string `json:"item,omitempty" maxLength:"128" doc:"Tells several rows of one SIM and month apart"`
	Cost   amount `json:"cost" doc:"What the carrier charges; a credit note is negative"`
}

type statementImport struct {
	NamePath
	Body struct {
		Statement string         `json:"statement" minLength:"1" maxLength:"200" doc:"The carrier's name or number for it"`
		Rows      []statementRow `json:"rows" minItems:"1" maxItems:"5000" doc:"More rows come in several requests"`
	} `nameHint:"StatementRequest"`
}

type carrierRate struct {
	NamePath
	Body struct {
		From string `json:"from" minLength:"7" maxLength:"7" doc:"The first month that it counts for" example:"2026-05"`
		Rate amount `json:"rate" doc:"What an active SIM should cost a month"`
	} `nameHint:"CarrierRateRequest"`
}

// CarrierRateView is a rate as it was set.
type CarrierRateView struct {
	Account string          `json:"account"`
	From    string          `json:"from"`
	Rate    simwarden.Money `json:"rate"`
}

type monthList struct {
	NamePath
	Paging
	Period string `query:"period" required:"true" minLength:"7" maxLength:"7" doc:"A month" example:"2026-05"`
}

func (r *rest) margins() {
	on(r, post("/accounts/{name}/statements", "import-statement", "Import rows of a carrier's statement"),
		func(ctx context.Context, in *statementImport) (ledger.StatementResult, error) {
			rows := make([]ledger.StatementRow, len(in.Body.Rows))
			for i, row := range in.Body.Rows {
				iccid, err := simwarden.ParseICCID(row.ICCID)
				if err != nil {
					return ledger.StatementResult{}, badInput("row %d: %v", i+1, err)
				}
				rows[i] = ledger.StatementRow{ICCID: iccid, Period: row.Period, Item: row.Item, Cost: row.Cost.money()}
			}
			return r.service.ImportStatement(ctx, in.Name, in.Body.Statement, rows, actorOf(ctx))
		})
	on(r, post("/accounts/{name}/rates", "set-carrier-rate", "Say what an active SIM of an account should cost a month"),
		func(ctx context.Context, in *carrierRate) (CarrierRateView, error) {
			rate := in.Body.Rate.money()
			err := r.service.SetCarrierRate(ctx, in.Name, in.Body.From, rate, actorOf(ctx))
			return CarrierRateView{in.Name, in.Body.From, rate}, err
		})
	on(r, get("/accounts/{name}/differences", "list-statement-differences", "List where the carrier's statements of a month and our book differ"),
		func(ctx context.Context, in *monthList) (Page[store.Difference], error) {
			return r.service.Differences(ctx, in.Name, in.Period, in.Cursor, in.Limit)
		})
	on(r, get("/accounts/{name}/margins", "list-margins", "List what SIMs earned and cost in a month"),
		func(ctx context.Context, in *monthList) (Page[store.Margin], error) {
			return r.service.Margins(ctx, in.Name, in.Period, in.Cursor, in.Limit)
		})
}
