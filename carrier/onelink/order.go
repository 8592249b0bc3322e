package onelink

import (
	"context"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// The numbers of a suspend and a resume. The single call and the batch call have different ones: 1
// resumes in the one, and moves SIMs under test into stock in the other.
const (
	singleSuspend, singleResume = "0", "1"
	batchSuspend, batchResume   = "9", "11"
	// batchReason goes with both numbers of the batch call.
	batchReason = "01"
)

// Handles name an order of the single call, or a job of the batch call.
const (
	orderHandle = "order:"
	jobHandle   = "job:"
)

// codeOrderFailed is ours: the carrier took the change and says that it came to nothing.
const codeOrderFailed = "order_failed"

// Suspend sends change/sim-status with operType 0, once.
func (c *conn) Suspend(ctx context.Context, sim carrier.SIMRef) (carrier.Result, error) {
	return c.change(ctx, simwarden.OpSuspend, sim, singleSuspend)
}

// Resume sends change/sim-status with operType 1, once.
func (c *conn) Resume(ctx context.Context, sim carrier.SIMRef) (carrier.Result, error) {
	return c.change(ctx, simwarden.OpResume, sim, singleResume)
}

func (c *conn) change(ctx context.Context, op simwarden.Operation, sim carrier.SIMRef, operType string) (carrier.Result, error) {
	if sim.Key == "" {
		return carrier.Result{}, carrier.NoKey(op)
	}
	if err := carrier.CheckKey(sim.Key); err != nil {
		return carrier.Result{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	result, ans, err := c.write(ctx, op, "change/sim-status", []param{{"iccid", sim.Key}, {"operType", operType}})
	if err != nil {
		return carrier.Result{}, err
	}
	number, err := decodeNumber(result, "orderNum")
	if err != nil {
		return carrier.Result{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return carrier.Result{Outcome: carrier.Accepted, Handle: orderHandle + number}, nil
}

// ChangeBatchSize is the most SIMs that ChangeMany takes.
func (c *conn) ChangeBatchSize() int { return batchSize }

// ChangeMany sends change/sim-status/batch, once. It goes by MSISDN, which every SIM must have.
func (c *conn) ChangeMany(ctx context.Context, d simwarden.Direction, sims []carrier.SIMRef) (carrier.Result, error) {
	op, operType := simwarden.OperationOf(d), batchResume
	if d == simwarden.DirectionSuspend {
		operType = batchSuspend
	}
	numbers, err := msisdns(op, sims)
	if err != nil {
		return carrier.Result{}, err
	}
	result, ans, err := c.write(ctx, op, "change/sim-status/batch", []param{{"msisdns", names(numbers)}, {"operType", operType}, {"reason", batchReason}})
	if err != nil {
		return carrier.Result{}, err
	}
	number, err := decodeNumber(result, "jobId")
	if err != nil {
		return carrier.Result{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return carrier.Result{Outcome: carrier.Accepted, Handle: jobHandle + number}, nil
}

// Job asks query/order-info about an order, query/sim-batch-result about a job. Whatever it says,
// the state is read after it.
func (c *conn) Job(ctx context.Context, sim carrier.SIMRef, handle string) (carrier.JobState, error) {
	const op = simwarden.OpQueryJob
	call, name, number := "query/order-info", "orderNum", ""
	order, isOrder := strings.CutPrefix(handle, orderHandle)
	job, isJob := strings.CutPrefix(handle, jobHandle)
	switch {
	case isOrder:
		number = order
	case isJob:
		call, name, number = "query/sim-batch-result", "jobId", job
	}
	if err := carrier.CheckKey(number); err != nil {
		return carrier.JobState{}, &carrier.Error{Operation: op, NotSent: true, Message: "the handle is not one of this carrier"}
	}
	result, ans, err := c.read(ctx, op, call, []param{{name, number}})
	if err != nil {
		return carrier.JobState{}, err
	}
	var state carrier.JobState
	if isOrder {
		state, err = decodeOrder(result, number)
	} else {
		state, err = decodeJob(result, sim.MSISDN.String())
	}
	if err != nil {
		return carrier.JobState{}, carrier.BadAnswer(op, ans.Status, err)
	}
	if state.Err != nil {
		state.Err.Operation, state.Err.HTTPStatus = op, ans.Status
	}
	return state, nil
}
