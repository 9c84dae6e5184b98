//go:build bed1

package cases

import "testing"

func TestBoot(t *testing.T) { t.Log("up") }
