package jsonpos_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

func TestParseKnowsPlaces(t *testing.T) {
	data := []byte("{\n  \"a\": [1, true, null],\n  \"ä\": \"x\", \"b\": {}\n}\n")
	n, err := jsonpos.Parse(data)
	require.NoError(t, err)
	require.Len(t, n.Members, 3)

	a, umlaut, b := n.Members[0], n.Members[1], n.Members[2]
	assert.Equal(t, jsonpos.Position{Line: 2, Column: 3}, jsonpos.PositionOf(data, a.Offset))
	assert.Equal(t, jsonpos.Position{Line: 2, Column: 8}, jsonpos.PositionOf(data, a.Value.Offset))
	assert.Equal(t, jsonpos.Position{Line: 2, Column: 12}, jsonpos.PositionOf(data, a.Value.Elems[1].Offset))
	assert.Equal(t, jsonpos.Null, a.Value.Elems[2].Kind)
	assert.Equal(t, "x", umlaut.Value.Text)
	assert.Equal(t, jsonpos.Position{Line: 3, Column: 18}, jsonpos.PositionOf(data, b.Value.Offset),
		"columns count characters, not bytes")
	assert.Equal(t, "[1,true,null]", a.Value.Source(data, 20))
	assert.Equal(t, "[1,t…", a.Value.Source(data, 4))
}

func TestParseErrors(t *testing.T) {
	deep := ""
	for range jsonpos.MaxDepth + 2 {
		deep += "["
	}
	for range jsonpos.MaxDepth + 2 {
		deep += "]"
	}
	tests := map[string]struct {
		text     string
		position jsonpos.Position
		message  string
	}{
		"empty":           {"", jsonpos.Position{Line: 1, Column: 1}, "unexpected end"},
		"cut":             {"{\n\"a\":", jsonpos.Position{Line: 2, Column: 5}, "unexpected end"},
		"missing comma":   {"{\"a\":1\n \"b\":2}", jsonpos.Position{Line: 2, Column: 2}, "invalid character '\"'"},
		"trailing comma":  {"{\"a\":1,}", jsonpos.Position{Line: 1, Column: 8}, "invalid character '}'"},
		"second document": {"{} {}", jsonpos.Position{Line: 1, Column: 4}, "after top-level value"},
		"too deep":        {deep, jsonpos.Position{Line: 1, Column: jsonpos.MaxDepth + 2}, "nested deeper"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := jsonpos.Parse([]byte(tc.text))
			var syntax *jsonpos.SyntaxError
			require.ErrorAs(t, err, &syntax)
			assert.Equal(t, tc.position, jsonpos.PositionOf([]byte(tc.text), syntax.Offset))
			assert.ErrorContains(t, err, tc.message)
		})
	}
}

func TestBlank(t *testing.T) {
	tests := map[string]struct{ in, out string }{
		"line":             {"{} // x\n1", "{}     \n1"},
		"block":            {"{/* a\nb */}", "{    \n    }"},
		"in a string":      {`"// no /* comment" //x`, `"// no /* comment"    `},
		"escaped quote":    {`"\"//" //`, `"\"//"   `},
		"line within star": {"// /*\n{}", "     \n{}"},
		"open string":      {`"abc`, `"abc`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := jsonpos.Blank([]byte(tc.in))
			require.NoError(t, err)
			assert.Equal(t, tc.out, string(got))
		})
	}

	_, err := jsonpos.Blank([]byte("{} /* open *"))
	var syntax *jsonpos.SyntaxError
	require.ErrorAs(t, err, &syntax)
	assert.Equal(t, 3, syntax.Offset)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}], "c": "d"} // x`))
	f.Fuzz(func(t *testing.T, data []byte) {
		blank, err := jsonpos.Blank(data)
		if err != nil {
			return
		}
		if len(blank) != len(data) {
			t.Fatalf("Blank changed the length from %d to %d", len(data), len(blank))
		}
		if n, err := jsonpos.Parse(blank); err == nil {
			n.Source(blank, 10)
		}
	})
}
