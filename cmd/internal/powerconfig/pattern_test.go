package powerconfig_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
)

// TestPattern compares with package regexp, which agrees with ECMAScript on all
// of these.
func TestPattern(t *testing.T) {
	expressions := []string{
		``, `On`, `On|Off`, `a|`, `.*\.Running`, `(a|b)*c`, `(?:ab)+`, `a?b{2}`, `a{1,}`, `a{0,2}b`, `[a-c]+`, `[^a-c]*`,
		`[-a]+`, `[a-]+`, `[\d.]+`, `\w+\s\D`, `^On$`, `(^a|b$)*`, `\x41\.`, `a.*?b`, `()*a`, `(a*)*b`, `[\]]`, `x*y*z*`,
		`State\.(Running|On)`, `\(\)`, `a\|b`, `ä+`,
	}
	texts := []string{
		``, `On`, `Off`, `a`, `aa`, `ab`, `abb`, `abab`, `abc`, `aabc`, `bb`, `cab`, `-`, `a-`, `1.5`, `word x`, `State.Running`,
		`State.On`, `A.`, `]`, `xyz`, `xyyz`, `()`, `a|b`, `ää`, `d`, "a\nb", `aXb`,
	}
	for _, e := range expressions {
		p, err := powerconfig.CompilePattern(e)
		require.NoError(t, err, e)
		assert.Equal(t, e, p.String())
		reference := regexp.MustCompile(`\A(?:` + e + `)\z`)
		for _, text := range texts {
			assert.Equal(t, reference.MatchString(text), p.Match(text), "%q on %q", e, text)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for expression, want := range map[string]string{
		`a)|(b`:                   "the ) at position 2 closes nothing",
		`(a`:                      "the ( at position 1 is not closed",
		`a[b`:                     "the [ at position 2 is not closed",
		`*a`:                      "the * at position 1 repeats nothing",
		`a{2,1}`:                  "the { at position 2 is no {n}",
		`a{9999}`:                 "the { at position 2 is no {n}",
		`a{`:                      "the { at position 2 is no {n}",
		`(?=a)`:                   "the look-around or named group at position 1",
		`(a)\1`:                   "the escape at position 4",
		`\b`:                      "the escape at position 1",
		`a\`:                      "the escape at position 2",
		`\xZZ`:                    "the escape at position 1",
		`[z-a]`:                   "the range before position 5",
		"\xff":                    "it is not valid UTF-8",
		strings.Repeat("(", 1000): "groups nest deeper",
	} {
		_, err := powerconfig.CompilePattern(expression)
		assert.ErrorContains(t, err, want, "%q", expression)
	}
}

func TestPatternEnds(t *testing.T) {
	for _, expression := range []string{`(a|a)*(a|a)*b`, `(((){1000}){1000}){1000}b`} {
		p, err := powerconfig.CompilePattern(expression)
		require.NoError(t, err)
		began := time.Now()
		assert.False(t, p.Match(strings.Repeat("a", 5000)))
		assert.Less(t, time.Since(began), 10*time.Second)
	}
}

func FuzzPattern(f *testing.F) {
	f.Add(`(a|b{2})*[^c-d]\d`, "abb1")
	f.Fuzz(func(t *testing.T, expression, text string) {
		if p, err := powerconfig.CompilePattern(expression); err == nil && len(text) < 1000 {
			p.Match(text)
		}
	})
}
