// Command summary reads the output of go test -json, prints one line for each
// package and the output of what failed, and ends with the line
// "N passed, N failed". It exits 1 when anything failed or nothing was run.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type key struct{ pkg, test string }

type summary struct {
	passed, failed, skipped int
	output                  map[key][]string // of what has not passed yet
	failedIn                map[string]bool  // packages with a failed test
}

func main() {
	s := summary{output: map[key][]string{}, failedIn: map[string]bool{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // go itself has something to say
			continue
		}
		s.take(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Println(err)
		s.failed++
	}
	line := fmt.Sprintf("%d passed, %d failed", s.passed, s.failed)
	if s.skipped > 0 {
		line += fmt.Sprintf(", %d skipped", s.skipped)
	}
	fmt.Println(line)
	if s.failed > 0 || s.passed == 0 {
		os.Exit(1)
	}
}

func (s *summary) take(e event) {
	k := key{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Print(e.Output)
	case e.Action == "output":
		s.output[k] = append(s.output[k], e.Output)
	case e.Test != "":
		s.test(e, k)
	default:
		s.pkg(e, k)
	}
}

func (s *summary) test(e event, k key) {
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		fmt.Printf("skip  %s %s\n%s", e.Package, e.Test, reason(s.output[k]))
	case "fail":
		s.failed++
		s.failedIn[e.Package] = true
		fmt.Printf("FAIL  %s %s\n%s", e.Package, e.Test, strings.Join(s.output[k], ""))
	default:
		return
	}
	delete(s.output, k)
}

// pkg takes the end of a package. One that failed without a failed test did not
// build, panicked or timed out: that counts as one failure, and all that is left
// of its output may say why.
func (s *summary) pkg(e event, k key) {
	switch e.Action {
	case "pass":
		fmt.Printf("ok    %s %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		fmt.Printf("FAIL  %s %.1fs\n", e.Package, e.Elapsed)
		if !s.failedIn[e.Package] {
			s.failed++
			for rest, output := range s.output {
				if rest.pkg == e.Package {
					fmt.Print(strings.Join(output, ""))
				}
			}
		}
	default:
		return
	}
	delete(s.output, k)
}

// reason picks why a test was skipped out of its output.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, "")
}
