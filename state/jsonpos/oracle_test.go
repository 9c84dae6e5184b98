package jsonpos_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// plain is a node as encoding/json shows it: of keys that are there twice the
// last counts.
func plain(n *jsonpos.Node) any {
	switch n.Kind {
	case jsonpos.Bool:
		return n.Bool
	case jsonpos.Number:
		return json.Number(n.Text)
	case jsonpos.String:
		return n.Text
	case jsonpos.Array:
		all := []any{}
		for _, e := range n.Elems {
			all = append(all, plain(e))
		}
		return all
	case jsonpos.Object:
		all := map[string]any{}
		for _, m := range n.Members {
			all[m.Key] = plain(m.Value)
		}
		return all
	default:
		return nil
	}
}

// requireAsJSON compares Parse with encoding/json.
func requireAsJSON(t interface {
	require.TestingT
	Helper()
}, data []byte) {
	t.Helper()
	var want any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err := json.Unmarshal(data, new(json.RawMessage))
	if err == nil {
		require.NoError(t, dec.Decode(&want))
	}
	n, got := jsonpos.Parse(data)
	if got != nil && strings.HasPrefix(got.Error(), "nested deeper") {
		return
	}
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		require.NoError(t, got, "%q", data)
		require.Equal(t, want, plain(n), "%q", data)
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, data))
		require.Equal(t, string([]rune(compact.String())), n.Source(data, len(data)), "%q", data)
		return
	}
	var place *jsonpos.SyntaxError
	require.ErrorAs(t, got, &place, "%q: %v", data, err)
	if place.Offset == len(data) { // where encoding/json sees a space, or the end
		require.Equal(t, "unexpected end of JSON input", place.Text, "%q", data)
		require.GreaterOrEqual(t, syntax.Offset, int64(len(data)), "%q", data)
		return
	}
	require.Equal(t, err.Error(), place.Text, "%q", data)
	require.Equal(t, syntax.Offset-1, int64(place.Offset), "%q", data)
}

var texts = []string{
	``, ` `, `nul`, `null`, `nulL`, `true`, `tru`, `truE`, `false`, `falsy`, `x`, `1`, `-`, `-0`, `01`, `1.`, `1.5`, `1.x`, `1e`,
	`1e+`, `1E-7`, `1ex`, `-x`, `1e999`, `1 2`, "\x00", "\"\x00\"", "\"\xff\"", `"`, `"a`, `"\`, `"\q"`, `"\u12"`, `"\u12g4"`,
	`"\u00e4\/\b\f\n\r\t\"\\"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ud83d\n"`, `"\ud83d\ug"`, `"\ude00"`,
	"\"\n\"", `[`, `[]`, `[ ]`, `[1`, `[1,`, `[1,]`, `[,]`, `[1 2]`, `[1}`, `{`, `{}`, `{ }`, `{1`, `{"a"`, `{"a" 1}`, `{"a":`, `{"a":}`,
	`{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a":1]`, `{"a":1,"a":2}`, "{\r\n\t\"a\" : [ 1 , {\"b\":null} ] } ", `{} {}`, `é`, `"é" '`,
}

func TestParseAsEncodingJSON(t *testing.T) {
	for _, text := range texts {
		requireAsJSON(t, []byte(text))
	}
}

func FuzzParseAsEncodingJSON(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { requireAsJSON(t, data) })
}

// span is text in JSON.
type span time.Duration

func (s span) String() string { return time.Duration(s).String() }

func (s *span) SetText(text string) error {
	d, err := time.ParseDuration(text)
	*s = span(d)
	return err
}

func (s span) MarshalText() ([]byte, error)     { return []byte(s.String()), nil }
func (s *span) UnmarshalText(text []byte) error { return s.SetText(string(text)) }

type embedded struct {
	Before int8 `json:"before"`
	Small  bool `json:"small,omitempty"`
}

type everything struct {
	embedded
	Bool     bool                `json:"bool"`
	Int      int                 `json:"int"`
	Int64    int64               `json:"int64,omitempty"`
	Uint8    uint8               `json:"uint8,omitempty"`
	Uint64   uint64              `json:"uint64"`
	Float    float64             `json:"float"`
	Text     string              `json:"text,omitempty"`
	Name     string              `json:"name <&>"`
	Span     span                `json:"span,omitempty"`
	Spans    map[string]span     `json:"spans,omitempty"`
	Flag     *bool               `json:"flag,omitempty"`
	Flags    map[string]bool     `json:"flags"`
	List     []string            `json:"list"`
	Few      []uint16            `json:"few,omitempty"`
	Inner    embedded            `json:"inner,omitempty"`
	Inners   []embedded          `json:"inners"`
	Deep     map[string][]string `json:"deep,omitempty"`
	Pointer  *embedded           `json:"pointer"`
	unstored int
}

func drawn(t *rapid.T) everything {
	text := rapid.String()
	inner := rapid.Custom(func(t *rapid.T) embedded {
		return embedded{rapid.Int8().Draw(t, "before"), rapid.Bool().Draw(t, "small")}
	})
	spans := rapid.Custom(func(t *rapid.T) span { return span(rapid.Int64().Draw(t, "span")) })
	v := everything{
		embedded: inner.Draw(t, "embedded"), Bool: rapid.Bool().Draw(t, "bool"), Int: rapid.Int().Draw(t, "int"),
		Int64: rapid.Int64().Draw(t, "int64"), Uint8: rapid.Uint8().Draw(t, "uint8"), Uint64: rapid.Uint64().Draw(t, "uint64"),
		Float: rapid.Float64Range(-1e300, 1e300).Draw(t, "float"), Text: text.Draw(t, "text"), Name: text.Draw(t, "name"),
		Span: spans.Draw(t, "span"), Spans: rapid.MapOf(text, spans).Draw(t, "spans"),
		Flag: rapid.Ptr(rapid.Bool(), true).Draw(t, "flag"), Flags: rapid.MapOf(text, rapid.Bool()).Draw(t, "flags"),
		List: rapid.SliceOf(text).Draw(t, "list"), Few: rapid.SliceOf(rapid.Uint16()).Draw(t, "few"),
		Inner: inner.Draw(t, "inner"), Inners: rapid.SliceOf(inner).Draw(t, "inners"),
		Deep: rapid.MapOf(text, rapid.SliceOf(text)).Draw(t, "deep"), Pointer: rapid.Ptr(inner, true).Draw(t, "pointer"),
	}
	if rapid.Bool().Draw(t, "nil") {
		v.Flags, v.List, v.Inners = nil, nil, nil
	}
	return v
}

func TestCodecAsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawn(t)
		ours := jsonpos.Marshal(v)
		var std bytes.Buffer
		enc := json.NewEncoder(&std)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(v))

		var a, b, want everything
		require.NoError(t, json.Unmarshal(ours, &a), "%s", ours)
		require.NoError(t, jsonpos.Unmarshal(std.Bytes(), &b), "%s", std.Bytes())
		require.NoError(t, json.Unmarshal(std.Bytes(), &want))
		require.Equal(t, want, a, "%s", ours)
		require.Equal(t, want, b, "%s", std.Bytes())

		require.Equal(t, keys(std.Bytes()), keys(ours), "the same keys in the same order")
	})
}

// keys are the keys of an object's text.
func keys(data []byte) []string {
	n, err := jsonpos.Parse(data)
	if err != nil {
		return nil
	}
	var all []string
	for _, m := range n.Members {
		all = append(all, m.Key)
	}
	return all
}

func TestUnmarshalErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"bool": 1}`:                      "1:10: a number does not fit bool",
		"{\n\"int\": \"1\"}":               "2:8: a string does not fit int",
		`{"int": 1.5}`:                     "1:9: a number does not fit int",
		`{"uint8": 256}`:                   "1:11: a number does not fit uint8",
		`{"uint64": -1}`:                   "1:12: a number does not fit uint64",
		`{"text": {}}`:                     "1:10: an object does not fit string",
		`{"list": [1]}`:                    "1:11: a number does not fit string",
		`{"flags": {"a": 0}}`:              "1:17: a number does not fit bool",
		`{"inners": [{"before":[` + `]}]}`: "1:23: a list does not fit int8",
		`{"span": "soon"}`:                 `1:10: time: invalid duration "soon"`,
		`[]`:                               "1:1: a list does not fit jsonpos_test.everything",
		`{`:                                "1:2: unexpected end of JSON input",
	} {
		var v everything
		assert.EqualError(t, jsonpos.Unmarshal([]byte(text), &v), want)
		assert.Error(t, json.Unmarshal([]byte(text), new(everything)), "%s: nor does encoding/json take it", text)
	}
	v := everything{unstored: 7}
	require.NoError(t, jsonpos.Unmarshal([]byte(`{"unstored": 1, "new": {"a": []}, "flags": null, "int": 1, "int": 2}`), &v))
	assert.Equal(t, everything{Int: 2, unstored: 7}, v)
	assert.Panics(t, func() {
		jsonpos.Marshal(struct {
			C chan int `json:"c"`
		}{})
	})
	assert.True(t, utf8.Valid(jsonpos.Marshal("\xff")))
}
