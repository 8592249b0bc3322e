package transfer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// The columns that are known, as reports name them.
const (
	columnICCID  = "iccid"
	columnMSISDN = "msisdn"
	columnIMSI   = "imsi"
	columnLabel  = "label"
	columnIMEI   = "imei"
	columnName   = "name"
	columnPlan   = "plan"
	columnStart  = "start"
	columnUsed   = "used"
	columnRef    = "ref"
	columnPeriod = "period"
	columnCost   = "cost"
	columnMoney  = "currency"
	columnItem   = "item"
)

// headerNames are the names, folded by foldName, under which people have the columns.
var headerNames = map[string][]string{
	columnICCID:  {"iccid", "卡号", "iccid号", "卡iccid", "sim卡号"},
	columnMSISDN: {"msisdn", "接入号", "接入号码", "手机号", "物联网号", "物联卡号"},
	columnIMSI:   {"imsi", "imsi号"},
	columnLabel:  {"label", "备注", "标签", "name", "名称"},
	columnIMEI:   {"imei", "设备号", "设备imei", "imei号"},
	columnName:   {"name", "名称", "设备名称", "label", "备注"},
	columnPlan:   {"plan", "套餐", "plancode", "套餐编码", "套餐代码"},
	columnStart:  {"start", "开始", "startat", "开始时间", "生效时间"},
	columnUsed:   {"used", "已用", "usedbytes", "已用字节"},
	columnPeriod: {"period", "账期", "月份", "month"},
	columnCost:   {"cost", "费用", "金额", "amount"},
	columnMoney:  {"currency", "币种", "货币"},
	columnItem:   {"item", "项目", "费用项"},
	columnRef:    {"ref", "importref", "reference", "订单号", "流水号"},
}

var (
	simColumns          = []string{columnICCID, columnMSISDN, columnIMSI, columnLabel, columnIMEI}
	deviceColumns       = []string{columnIMEI, columnName}
	statementColumns    = []string{columnICCID, columnPeriod, columnCost, columnMoney, columnItem}
	subscriptionColumns = []string{columnICCID, columnPlan, columnStart, columnUsed, columnRef}
)

// foldName makes names that differ in case, spaces, hyphens and underscores alone the same.
func foldName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || r == '_' || r == '-' || r == '\ufeff':
			return -1
		case r >= '！' && r <= '～': // full width
			return unicode.ToLower(r - 0xfee0)
		}
		return unicode.ToLower(r)
	}, s)
}

// header says where each known column is.
type header struct {
	names   []string // as written
	at      map[string]int
	ignored []string
}

// readHeader reads the first row that is not empty, finds the separator from it and sets it in r.
// Of the columns wanted, those in required must be there. The errors wrap ErrFile.
func readHeader(r *recordReader, wanted, required []string) (header, error) {
	for {
		rec, text, err := r.line()
		switch {
		case errors.Is(err, io.EOF):
			return header{}, fileError("the file has no header row; its first row names the columns: %s", strings.Join(wanted, ", "))
		case err != nil:
			return header{}, err
		case rec.bad != "":
			return header{}, fileError("the header: %s", rec.bad)
		case strings.Trim(text, " ,;\t\ufeff") == "":
			continue
		}
		if hint, ok := separatorHint([]byte(text)); ok && r.separator == 0 {
			r.separator = hint
			continue
		}
		return parseHeader(r, text, wanted, required)
	}
}

func parseHeader(r *recordReader, text string, wanted, required []string) (header, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	tried := separators
	if r.separator != 0 {
		tried = []byte{r.separator}
	}
	var best header
	var bestBad string
	for _, sep := range tried {
		cells, bad := split(text, sep)
		h, dup := placeColumns(cells, wanted)
		if bad == "" {
			bad = dup
		}
		if r.separator == 0 || len(h.at) > len(best.at) || len(h.at) == len(best.at) && len(cells) > len(best.names) {
			best, bestBad, r.separator = h, bad, sep
		}
	}
	if len(best.names) > MaxColumns {
		return header{}, fileError("the header has %d columns; at most %d are read", len(best.names), MaxColumns)
	}
	for _, name := range required {
		if _, found := best.at[name]; !found {
			return header{}, fileError("the file has no column %s (also read as: %s); its header has: %s",
				name, strings.Join(headerNames[name][1:], ", "), listNames(best.names))
		}
	}
	if bestBad != "" {
		return header{}, fileError("the header: %s", bestBad)
	}
	return best, nil
}

// placeColumns finds the wanted columns; problem names one that is there twice.
func placeColumns(cells, wanted []string) (h header, problem string) {
	h = header{at: map[string]int{}}
	for i, cell := range cells {
		h.names = append(h.names, strings.TrimSpace(PlainCell(cell)))
		folded := foldName(PlainCell(cell))
		known := ""
		for _, name := range wanted {
			if slices.Contains(headerNames[name], folded) {
				known = name
			}
		}
		if known == "" {
			if folded != "" {
				h.ignored = append(h.ignored, h.names[i])
			}
			continue
		}
		if first, twice := h.at[known]; twice && problem == "" {
			problem = fmt.Sprintf("the column %s is there twice, as %q and %q; take one out", known, clip(h.names[first]), clip(h.names[i]))
		}
		h.at[known] = i
	}
	return h, problem
}

// cell gives a row's value in a known column, without what people put around it; "" where the file
// has no such column.
func (h header) cell(rec record, column string) string {
	i, found := h.at[column]
	if !found || i >= len(rec.cells) {
		return ""
	}
	return strings.TrimSpace(PlainCell(strings.TrimSpace(rec.cells[i])))
}

// shape says what is wrong with a row as a whole, "" for nothing.
func (h header) shape(rec record) string {
	switch {
	case rec.bad != "":
		return rec.bad
	case len(rec.cells) != len(h.names) && !(len(rec.cells) > len(h.names) && (record{cells: rec.cells[len(h.names):]}).blank()):
		return fmt.Sprintf("the row has %d cells, the header %d; is a separator inside a value, or the row cut off?", len(rec.cells), len(h.names))
	case swallowed(rec.cells):
		return "a cell holds a line break and another row's ICCID behind it; a quote is missing"
	}
	return ""
}

// listNames lists a header's names for an error, the first twenty.
func listNames(names []string) string {
	var out []string
	for i, name := range names {
		if i == 20 {
			out = append(out, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		out = append(out, fmt.Sprintf("%q", clip(name)))
	}
	return strings.Join(out, ", ")
}
