package aside_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/aside"
)

func TestNothingSetAsideIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.json")
	want := []string{path + ".unreadable", path + ".unreadable.1", path + ".unreadable.2"}
	for i, name := range want {
		require.NoError(t, os.WriteFile(path, []byte(strconv.Itoa(i)), 0o600))
		to, err := aside.Move(path)
		require.NoError(t, err)
		assert.Equal(t, name, to)
		assert.NoFileExists(t, path)
	}
	for i, name := range want {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(i), string(text))
	}
	_, err := aside.Move(path)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
