package engine

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// The note is what encoding/json makes of it, so that an older or newer daemon
// can read it.
func TestSavedAsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.Make[saved]().Draw(t, "saved")
		s.Boot = "boot-1"
		text, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, string(text), string(jsonpos.Marshal(s)))
		var back saved
		require.NoError(t, jsonpos.Unmarshal(text, &back))
		require.Equal(t, s, back)
	})
}
