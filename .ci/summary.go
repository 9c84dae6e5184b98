// Command summary reads the output of go test -json, prints one line for each
// package and the output of what failed, and ends with the line
// "N passed, N failed". It exits 1 when anything failed or nothing was run.
//
// With a coverage table as argument, every row of the table needs the tests that
// it names: each must say by statetest.Covers that it covers the row, and must
// have passed. A row that names none needs a reason among those that do not
// apply.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
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
	output                  map[key][]string           // of what has not passed yet
	failedIn                map[string]bool            // packages with a failed test
	covered                 map[string]map[string]bool // tests that passed, by row that they cover
}

func main() {
	s := summary{output: map[key][]string{}, failedIn: map[string]bool{}, covered: map[string]map[string]bool{}}
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
	if len(os.Args) > 1 {
		s.coverage(os.Args[1])
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
		s.covers(e, s.output[k])
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

// covers notes the rows that a test which has passed says it covers.
func (s *summary) covers(e event, output []string) {
	for _, line := range output {
		_, rows, ok := strings.Cut(line, ": covers: ")
		if !ok {
			continue
		}
		for _, row := range strings.Fields(rows) {
			if s.covered[row] == nil {
				s.covered[row] = map[string]bool{}
			}
			s.covered[row][path.Base(e.Package)+"."+e.Test] = true
		}
	}
}

// rowsWanted are the scenarios (S), the reference's own scenarios (C) and the
// bug reports (B) that the table must have.
const rowsWanted = `S01 S02 S04 S05 S07 S08 S10 S11 S12 S14 S15 S16 S17 S18 S20 S21 S22 S23 S24 S25 S27 S28 S30 S31 S33 S35 S36
	S37 S39 S40 S41 S43 S44 S46 S47 S48 S49 S50 S51 S52 S53 S54 S56 S57 S58 S60 S61
	C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C15 C16 C17 C18 C19 C20 C21 C22 C23 C24 C25 C26 C27 C28
	B2 B3 B4 B5 B6 B7 B9 B11 B12 B13 B14 B15 B16 B17 B18 B19 B20 B21 B22 B23 B26 B28 B29 B30 B31 B33 B34 B36 B37 B38
	B39 B40 B41 B42 B43 B45 B46`

// coverage compares the table with what has passed. A line of the table is
// "| row | what | tests |", or "| row | what | does not apply: reason |".
func (s *summary) coverage(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		s.uncovered(file, err.Error())
		return
	}
	wanted := map[string]bool{}
	for _, row := range strings.Fields(rowsWanted) {
		wanted[row] = true
	}
	named := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !wanted[strings.TrimSpace(cells[1])] {
			continue
		}
		row, tests := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[3])
		if named[row] {
			s.uncovered(row, "is there twice")
		}
		named[row] = true
		s.row(row, tests)
	}
	for row := range wanted {
		if !named[row] {
			s.uncovered(row, "is not in the table")
		}
	}
	for row := range s.covered {
		if !wanted[row] {
			s.uncovered(row, "is covered by a test, and there is no such row")
		}
	}
	fmt.Printf("coverage: %d rows of %s\n", len(named), file)
}

func (s *summary) row(row, tests string) {
	if why, ok := strings.CutPrefix(tests, "does not apply: "); ok {
		if len(why) < 20 {
			s.uncovered(row, "does not apply, without a reason")
		}
		return
	}
	if tests == "" {
		s.uncovered(row, "names no test")
	}
	for _, test := range strings.Split(tests, ", ") {
		if tests != "" && !s.covered[row][test] {
			s.uncovered(row, test+" has not passed, or does not say that it covers this")
		}
	}
}

func (s *summary) uncovered(row, why string) {
	s.failed++
	fmt.Printf("FAIL  coverage of %s: %s\n", row, why)
}
