package lab

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"time"
)

const jsonType = "application/json"

// send writes the answer and the line. The line is written before the answer's last byte, so
// that who has read an answer finds its line.
func (x *exchange) send(reply Reply, f *Fault) {
	if x.r.Context().Err() != nil {
		x.hangUp()
		return
	}
	header := x.rw.Header()
	for name, values := range reply.Header {
		header[name] = values
	}
	if header.Get("Content-Type") == "" && len(reply.Body) > 0 {
		header.Set("Content-Type", jsonType)
	}
	if f != nil {
		x.line.Answer = AnswerGarbage
		switch f.Name {
		case Drip:
			x.drip(reply, f)
			return
		case Flood:
			x.flood(reply, f)
			return
		}
		reply.Body = garbage(reply.Body, f.Variant, header)
	}
	x.line.Status = reply.Status
	if reply.Status != http.StatusNoContent {
		header.Set("Content-Length", strconv.Itoa(len(reply.Body)))
	}
	x.rw.WriteHeader(reply.Status)
	last := max(len(reply.Body)-1, 0)
	// An error means that the client has left: nobody is there to be told.
	_, _ = x.rw.Write(reply.Body[:last])
	x.line.AnsweredAt = x.world.Now()
	x.line.RetryAfterSeconds = retryAfterSeconds(header.Get("Retry-After"), x.line.AnsweredAt)
	x.end()
	_, _ = x.rw.Write(reply.Body[last:])
}

// retryAfterSeconds reads what the answer asks for as a client must (RFC 9110 section 10.2.3); 0 for
// nothing, for the past and for nonsense.
func retryAfterSeconds(value string, now time.Time) int64 {
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return max(seconds, 0)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(int64(at.Sub(now)/time.Second), 0)
}

func (x *exchange) end() {
	x.world.log.write(x.line)
	x.world.counters.count(&x.line)
}

// hangUp ends the request without an answer: the connection is reset.
func (x *exchange) hangUp() {
	x.line.Status, x.line.Answer, x.line.Rows = 0, AnswerNone, 0
	x.line.StateAnswered, x.line.RawAnswered, x.line.PendingAnswered, x.line.UsageAnswered = "", "", false, 0
	x.line.ClosedAt = x.world.Now()
	x.end()
	x.reset()
}

func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 or a test's recorder: the server breaks it off
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, not an orderly end; an error means that it is closed already
	}
	conn.Close()
}

// drip sends a byte at a time, until the client has had enough.
func (x *exchange) drip(reply Reply, f *Fault) {
	control := http.NewResponseController(x.rw)
	x.line.Status = reply.Status
	x.rw.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
	x.rw.WriteHeader(reply.Status)
	for i := range reply.Body {
		if control.Flush() != nil || !x.pause(f.duration()) {
			x.broken()
			return
		}
		if i == len(reply.Body)-1 {
			break
		}
		if _, err := x.rw.Write(reply.Body[i : i+1]); err != nil {
			x.broken()
			return
		}
	}
	x.line.AnsweredAt = x.world.Now()
	x.end()
	_, _ = x.rw.Write(reply.Body[max(len(reply.Body)-1, 0):])
}

// flood sends the right answer with blanks in it: 100 MiB of them, or without end.
func (x *exchange) flood(reply Reply, f *Fault) {
	left := f.Bytes
	if left == 0 {
		left = 100 << 20
	}
	x.line.Status = reply.Status
	x.rw.WriteHeader(reply.Status)
	last := max(len(reply.Body)-1, 0)
	_, err := x.rw.Write(reply.Body[:last])
	blanks := bytes.Repeat([]byte{' '}, 64<<10)
	for ; err == nil && left != 0 && x.r.Context().Err() == nil; left -= int64(len(blanks)) {
		if left > 0 && left < int64(len(blanks)) {
			blanks = blanks[:left]
		}
		_, err = x.rw.Write(blanks)
	}
	if err != nil || x.r.Context().Err() != nil {
		x.broken()
		return
	}
	x.line.AnsweredAt = x.world.Now()
	x.end()
	_, _ = x.rw.Write(reply.Body[last:])
}

// broken ends a request whose answer was under way when the client left.
func (x *exchange) broken() {
	x.line.ClosedAt = x.world.Now()
	x.end()
	panic(http.ErrAbortHandler)
}

// systemBusy is "system busy" in Chinese, in GBK: not valid UTF-8.
const systemBusy = "\xcf\xb5\xcd\xb3\xb7\xb1\xc3\xa6"

func garbage(body []byte, variant string, header http.Header) []byte {
	switch variant {
	case "empty":
		return nil
	case "truncated":
		return body[:len(body)/2]
	case "bom":
		return append([]byte("\xef\xbb\xbf"), body...)
	case "gbk":
		header.Set("Content-Type", jsonType+"; charset=GBK")
		return []byte(`{"code":"0","message":"` + systemBusy + `"}`)
	case "wrong_type":
		return otherTypes(body)
	case "trailing":
		return append(bytes.Clone(body), "\n<!-- served by the cache -->"...)
	default:
		header.Set("Content-Type", "text/html; charset=utf-8")
		return []byte("<!DOCTYPE html><html><head><title>Welcome</title></head><body><h1>It works</h1></body></html>\n")
	}
}

// otherTypes turns every scalar of a JSON text into one of another type: text into numbers,
// numbers and booleans into text.
func otherTypes(body []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return []byte("0")
	}
	text, err := json.Marshal(otherType(value))
	if err != nil {
		return []byte("0")
	}
	return text
}

func otherType(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = otherType(v[name])
		}
		return v
	case []any:
		for i := range v {
			v[i] = otherType(v[i])
		}
		return v
	case string:
		return len(v)
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return value
}

// withRetryAfter adds the header in the form that the variant names (RFC 9110 section 10.2.3).
func withRetryAfter(reply Reply, f *Fault, now time.Time) Reply {
	var value string
	switch f.Variant {
	case "seconds":
		value = strconv.Itoa(int(f.Seconds))
	case "date":
		value = now.Add(f.duration()).Format(http.TimeFormat)
	case "nonsense":
		value = "soon; ask again"
	case "past":
		value = now.Add(-time.Hour).Format(http.TimeFormat)
	case "year":
		value = strconv.Itoa(365 * 24 * 3600)
	default:
		return reply
	}
	header := reply.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Retry-After", value)
	reply.Header = header
	return reply
}
