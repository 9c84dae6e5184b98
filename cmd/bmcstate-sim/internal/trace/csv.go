package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// maxTime is the longest trace, in u: 31 years if one u is a second.
const maxTime = 1e9

// Read reads a trace with the columns of [queue.TraceColumns], in any order;
// further columns are ignored. Errors in the text are *InputError; file is only
// for them.
func Read(file string, in io.Reader) (*Trace, error) {
	r := &reader{file: file, csv: csv.NewReader(in), intents: map[state.Key]int{}}
	r.csv.ReuseRecord = true
	if err := r.header(); err != nil {
		return nil, err
	}
	for {
		row, err := r.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, r.broken(err)
		}
		if err := r.row(row); err != nil {
			return nil, err
		}
	}
	if len(r.trace.Deliveries) == 0 {
		return nil, &InputError{file, 2, "rows", "", "at least one delivery is needed"}
	}
	r.trace.Intents = len(r.intents)
	return &r.trace, nil
}

type reader struct {
	file    string
	csv     *csv.Reader
	column  map[string]int
	intents map[state.Key]int
	trace   Trace
}

func (r *reader) header() error {
	columns := queue.TraceColumns()
	need := "needed is a header with the columns " + strings.Join(columns, ", ")
	row, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return &InputError{r.file, 1, "header", "", "the file is empty: " + need}
	}
	if err != nil {
		return r.broken(err)
	}
	r.column = map[string]int{}
	for i, name := range row {
		if _, twice := r.column[name]; twice {
			return &InputError{r.file, 1, "header", name, "the column stands twice: allowed is once"}
		}
		r.column[strings.Clone(name)] = i
	}
	for _, name := range columns {
		if _, ok := r.column[name]; !ok {
			return &InputError{r.file, 1, "header", strings.Join(row, ","), "column " + name + " is missing: " + need}
		}
	}
	return nil
}

// broken turns an error of the csv package into an InputError; an error of the
// file stays what it is.
func (r *reader) broken(err error) error {
	var syntax *csv.ParseError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	if errors.Is(err, csv.ErrFieldCount) {
		return &InputError{r.file, syntax.Line, "row", "", fmt.Sprintf("a row has as many fields as the header, %d", len(r.column))}
	}
	return &InputError{r.file, syntax.Line, "row", "", "not CSV: " + syntax.Err.Error()}
}

func (r *reader) row(row []string) error {
	var d Delivery
	fields := []struct {
		name string
		read func(string) error
	}{
		{"arrival_u", func(s string) error { return r.time(&d, s) }},
		{"client_id", func(s string) error { return readClient(&d, s) }},
		{"request_id", func(s string) error { return readID(&d.Key.Request, s) }},
		{"op", func(s string) (err error) { d.Op, err = ParseOperation(s); return err }},
		{"is_repeat", func(s string) error { return readBit(&d.Repeat, s) }},
		{"delayed", func(s string) error { return readBit(&d.Delayed, s) }},
	}
	for _, f := range fields {
		value := row[r.column[f.name]]
		if err := f.read(value); err != nil {
			line, _ := r.csv.FieldPos(r.column[f.name])
			return &InputError{r.file, line, f.name, value, err.Error()}
		}
	}
	intent, known := r.intents[d.Key]
	if !known {
		intent = len(r.intents)
		r.intents[d.Key] = intent
	}
	d.Intent = intent
	r.trace.Deliveries = append(r.trace.Deliveries, d)
	return nil
}

func (r *reader) time(d *Delivery, text string) error {
	t, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(t) || t < 0 || t > maxTime {
		return fmt.Errorf("allowed is a number of u from 0 to %g", float64(maxTime))
	}
	if n := len(r.trace.Deliveries); n > 0 && t < r.trace.Deliveries[n-1].At {
		return fmt.Errorf("the rows must be sorted by time: the one before has %v", r.trace.Deliveries[n-1].At)
	}
	d.At = t
	return nil
}

func readClient(d *Delivery, text string) error {
	var client string
	if err := readID(&client, text); err != nil {
		return err
	}
	d.Key.UID, d.Key.Client = clientOf(client)
	d.Property = d.Key.Client == state.PropertyClient
	return nil
}

func readID(id *string, text string) error {
	if text == "" {
		return errors.New("allowed is any text but the empty one")
	}
	*id = strings.Clone(text)
	return nil
}

func readBit(b *bool, text string) error {
	if text != "0" && text != "1" {
		return errors.New("allowed is 0 or 1")
	}
	*b = text == "1"
	return nil
}

// Write writes a trace that [Read] reads.
func (t *Trace) Write(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{queue.TraceColumns()}
	for _, d := range t.Deliveries {
		rows = append(rows, []string{
			strconv.FormatFloat(d.At, 'f', -1, 64), clientText(d.Key), d.Key.Request,
			operationName(d.Op), bit(d.Repeat), bit(d.Delayed),
		})
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
