package carrier

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseJSONTakesOneWholeText(t *testing.T) {
	for _, row := range []struct {
		sentence, text string
		want           error
	}{
		{"an object", `{"a":1}`, nil},
		{"white space around", " \r\n\t[1, 2] \n", nil},
		{"nothing", "", ErrNotJSON},
		{"white space alone", " \n", ErrNotJSON},
		{"an HTML page", "<!DOCTYPE html><html></html>", ErrNotJSON},
		{"a text cut short", `{"a":[1,2`, ErrNotJSON},
		{"something behind the value", `{"a":1}<!-- cached -->`, ErrNotJSON},
		{"two values", `{} {}`, ErrNotJSON},
		{"a byte order mark", "\xef\xbb\xbf{}", ErrNotJSON},
		{"GBK in a string", "{\"m\":\"\xb7\xb1\xc3\xa6\"}", ErrNotUTF8},
		{"a trailing comma", `{"a":1,}`, ErrNotJSON},
	} {
		if _, err := ParseJSON([]byte(row.text)); !errors.Is(err, row.want) {
			t.Errorf("F24: %s: got %v, want %v", row.sentence, err, row.want)
		}
	}
}

func TestPickTrustsNoNameTwice(t *testing.T) {
	names := []string{"status", "simId"}
	for _, row := range []struct {
		sentence, text string
		status         string
		ok             bool
	}{
		{"the named members are found among others", `{"x":{"status":"no"},"status":"active","y":[1,"}"],"simId":"1"}`, "active", true},
		{"an absent member is absent", `{"simId":"1"}`, "", true},
		{"a quote and a brace in a string end nothing", `{"x":"\"},{","status":"active"}`, "active", true},
		{"a string that ends in a backslash ends", `{"x":"\\","status":"active"}`, "active", true},
		{"escapes in the value are undone", `{"status":"\u0061ctive"}`, "active", true},
		{"a member that is there twice is nobody's word", `{"status":"active","status":"suspended"}`, "", false},
		{"the same in other case is nobody's word", `{"status":"active","Status":"suspended"}`, "", false},
		{"other case alone is not trusted", `{"STATUS":"active"}`, "", false},
		{"an escaped twin is nobody's word", `{"status":"active","st\u0061tus":"suspended"}`, "", false},
		{"an array is no object", `["status"]`, "", false},
		{"an empty object has nothing", `{ }`, "", true},
	} {
		doc, err := ParseJSON([]byte(row.text))
		if err != nil {
			t.Fatalf("%s: %v", row.sentence, err)
		}
		var member [2]JSON
		err = doc.Pick(member[:], names)
		status, _ := member[0].Text()
		if (err == nil) != row.ok || row.ok && status != row.status {
			t.Errorf("F24: %s: got %q, %v", row.sentence, status, err)
		}
	}
}

func TestNumbersStayExact(t *testing.T) {
	for _, row := range []struct {
		sentence, text string
		asText         string
		isText         bool
		asInt          int64
		isInt          bool
	}{
		{"F33: an ICCID as a number keeps its digits", `8942310022000012345`, "8942310022000012345", true, 8942310022000012345, true},
		{"F33: twenty digits keep theirs and are no int64", `89883070000123456781`, "89883070000123456781", true, 0, false},
		{"F33: a number with an exponent names nothing", `8.98E+18`, "", false, 0, false},
		{"a count as text is a count", `"42"`, "42", true, 42, true},
		{"a count with a fraction of zeros is whole", `42.0`, "", false, 42, true},
		{"half a byte is no count", `0.5`, "", false, 0, false},
		{"words are no count", `"lots"`, "lots", true, 0, false},
		{"true is neither", `true`, "", false, 0, false},
		{"null is neither", `null`, "", false, 0, false},
		{"infinity is no count", `"Inf"`, "Inf", true, 0, false},
		{"hexadecimal is no count", `"0x10p3"`, "0x10p3", true, 0, false},
		{"a plus sign and underscores are no count", `"+1_0"`, "+1_0", true, 0, false},
	} {
		doc, err := ParseJSON([]byte(row.text))
		if err != nil {
			t.Fatal(err)
		}
		text, isText := doc.Text()
		n, isInt := doc.Int64()
		if text != row.asText || isText != row.isText || n != row.asInt || isInt != row.isInt {
			t.Errorf("%s: got %q %v, %d %v", row.sentence, text, isText, n, isInt)
		}
	}
}

func TestAddBytesNeverWraps(t *testing.T) {
	for _, row := range []struct {
		sum    int64
		figure string
		want   int64
		ok     bool
	}{
		{5, `7`, 12, true},
		{5, `null`, 5, true},
		{5, `-1`, 0, false},
		{1, `9223372036854775807`, 0, false},
		{0, `9223372036854775807`, 1<<63 - 1, true},
		{0, `"x"`, 0, false},
		{0, `{}`, 0, false},
	} {
		got, err := AddBytes(row.sum, JSON(row.figure))
		if got != row.want || (err == nil) != row.ok {
			t.Errorf("%d + %s = %d, %v", row.sum, row.figure, got, err)
		}
	}
}

// FuzzJSON walks whatever ParseJSON takes, and holds it against encoding/json: the same members
// in the same number, and no panic.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"simId":"8942310022000012345","status":"active","profiles":{"a":{"iccid":"8942310022000012345"}}}`,
		`[{"a":"\\\"}"},[],{},"",null,true,1e5]`, ` { "a" : [ 1 , 2 ] , "b" : "\u0041" } `, "{\"a\":\"\xcf\"}", `[[[[[[`, `"`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := ParseJSON(text)
		if err != nil || len(text) > 4<<10 {
			return
		}
		var elements []json.RawMessage
		if json.Unmarshal(text, &elements) == nil && elements != nil {
			i := 0
			if err := doc.Elements(func(v JSON) error {
				if string(v) != strings.Trim(string(elements[i]), " \t\r\n") {
					t.Errorf("element %d is %q, encoding/json has %q", i, v, elements[i])
				}
				i++
				return nil
			}); err != nil || i != len(elements) {
				t.Errorf("walked %d of %d elements: %v", i, len(elements), err)
			}
		}
		walk(t, doc, 3)
	})
}

// walk visits every value; those above the depth are also held against encoding/json, which would
// take quadratic time in a deep text.
func walk(t *testing.T, v JSON, depth int) {
	if depth > 0 && !json.Valid(v) {
		t.Fatalf("%q is no value", v)
	}
	v.Text()
	v.Int64()
	var member [2]JSON
	if err := v.Pick(member[:], []string{"status", "a"}); err != nil && v.IsObject() && !errors.Is(err, ErrJSONMembers) {
		t.Fatalf("an object is refused: %v", err)
	}
	switch v[0] {
	case '{':
		if err := v.Members(func(name, value JSON) error { name.Name(); walk(t, value, depth-1); return nil }); err != nil {
			t.Fatal(err)
		}
	case '[':
		if err := v.Elements(func(value JSON) error { walk(t, value, depth-1); return nil }); err != nil {
			t.Fatal(err)
		}
	}
}
