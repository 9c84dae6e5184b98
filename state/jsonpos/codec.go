package jsonpos

import (
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Texter is a value that stands in JSON as a string: that of its String method.
// SetText takes it back. SetText has a pointer as its receiver.
type Texter interface {
	fmt.Stringer
	SetText(text string) error
}

// Marshal writes v, which is made of booleans, numbers, strings, structs,
// slices, maps with strings as keys, pointers and [Texter]s. It writes what
// encoding/json would, but for a struct's fields without a json tag, which it
// leaves out, and HTML, which it does not escape. It panics for other types, as
// they are a mistake of the program.
func Marshal(v any) []byte {
	var w writer
	w.value(addressable(reflect.ValueOf(v)))
	return w.out
}

// addressable copies v, so that the methods of its pointer can be found.
func addressable(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}

// Unmarshal reads what Marshal or encoding/json wrote into the variable that to
// points to. Keys that its type does not know are ignored. An error names the
// place; the variable may then have some of its values.
func Unmarshal(data []byte, to any) error {
	n, err := Parse(data)
	if err == nil {
		err = set(reflect.ValueOf(to).Elem(), n)
	}
	if e, ok := errors.AsType[*SyntaxError](err); ok {
		return fmt.Errorf("%v: %w", PositionOf(data, e.Offset), e)
	}
	return err
}

type writer struct{ out []byte }

func (w *writer) add(s string) { w.out = append(w.out, s...) }

// value writes v, which can be addressed.
func (w *writer) value(v reflect.Value) {
	if t, ok := v.Addr().Interface().(Texter); ok {
		w.text(t.String())
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		w.out = strconv.AppendBool(w.out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.out = strconv.AppendInt(w.out, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.out = strconv.AppendUint(w.out, v.Uint(), 10)
	case reflect.Float64:
		w.out = strconv.AppendFloat(w.out, v.Float(), 'g', -1, 64)
	case reflect.String:
		w.text(v.String())
	case reflect.Struct:
		w.add("{")
		w.fields(v)
		w.close("}")
	case reflect.Slice:
		w.slice(v)
	case reflect.Map:
		w.object(v)
	case reflect.Pointer:
		if v.IsNil() {
			w.add("null")
			return
		}
		w.value(v.Elem())
	default:
		panic("jsonpos: cannot write a " + v.Type().String())
	}
}

// close ends a list whose elements were each followed by a comma.
func (w *writer) close(bracket string) {
	if last := len(w.out) - 1; w.out[last] == ',' {
		w.out = w.out[:last]
	}
	w.add(bracket)
}

func (w *writer) fields(v reflect.Value) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, omitEmpty := tag(f)
		switch {
		case f.Anonymous:
			w.fields(v.Field(i))
		case name != "" && !(omitEmpty && isEmpty(v.Field(i))):
			w.text(name)
			w.add(":")
			w.value(v.Field(i))
			w.add(",")
		}
	}
}

func tag(f reflect.StructField) (name string, omitEmpty bool) {
	name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, option == "omitempty"
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

func (w *writer) slice(v reflect.Value) {
	if v.IsNil() {
		w.add("null")
		return
	}
	w.add("[")
	for i := range v.Len() {
		w.value(v.Index(i))
		w.add(",")
	}
	w.close("]")
}

func (w *writer) object(v reflect.Value) {
	if v.IsNil() {
		w.add("null")
		return
	}
	keys := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		keys = append(keys, k.String())
	}
	sort.Strings(keys)
	w.add("{")
	for _, k := range keys {
		w.text(k)
		w.add(":")
		w.value(addressable(v.MapIndex(reflect.ValueOf(k))))
		w.add(",")
	}
	w.close("}")
}

// text writes a string. What is no UTF-8 becomes U+FFFD.
func (w *writer) text(s string) {
	w.add(`"`)
	for _, r := range s {
		i := strings.IndexRune(escaped, r)
		switch {
		case i >= 0 && r != '/':
			w.out = append(w.out, '\\', escapes[i])
		case r < ' ':
			w.out = fmt.Appendf(w.out, `\u%04x`, r)
		default:
			w.out = utf8.AppendRune(w.out, r)
		}
	}
	w.add(`"`)
}

// set puts n into v.
func set(v reflect.Value, n *Node) error {
	if t, ok := v.Addr().Interface().(Texter); ok && n.Kind == String {
		if err := t.SetText(n.Text); err != nil {
			return &SyntaxError{Offset: n.Offset, Text: err.Error()}
		}
		return nil
	}
	if n.Kind == Null {
		v.SetZero()
		return nil
	}
	kind := v.Kind()
	switch {
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return set(v.Elem(), n)
	case kind == reflect.Bool && n.Kind == Bool:
		v.SetBool(n.Bool)
	case kind == reflect.String && n.Kind == String:
		v.SetString(n.Text)
	case kind == reflect.Struct && n.Kind == Object:
		return setFields(v, n)
	case kind == reflect.Slice && n.Kind == Array:
		return setSlice(v, n)
	case kind == reflect.Map && n.Kind == Object:
		return setMap(v, n)
	case n.Kind != Number || !setNumber(v, n.Text):
		return &SyntaxError{Offset: n.Offset, Text: fmt.Sprintf("%s does not fit %v", n.Kind, v.Type())}
	}
	return nil
}

func setNumber(v reflect.Value, text string) bool {
	switch {
	case v.CanInt():
		i, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(i)
		return err == nil
	case v.CanUint():
		u, err := strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(u)
		return err == nil
	case v.CanFloat():
		f, err := strconv.ParseFloat(text, 64)
		v.SetFloat(f)
		return err == nil
	default:
		return false
	}
}

func setFields(v reflect.Value, n *Node) error {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if err := setFields(v.Field(i), n); err != nil {
				return err
			}
		}
		name, _ := tag(f)
		for _, m := range n.Members {
			if name == "" || m.Key != name {
				continue
			}
			if err := set(v.Field(i), m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func setSlice(v reflect.Value, n *Node) error {
	all := reflect.MakeSlice(v.Type(), len(n.Elems), len(n.Elems))
	for i, e := range n.Elems {
		if err := set(all.Index(i), e); err != nil {
			return err
		}
	}
	v.Set(all)
	return nil
}

func setMap(v reflect.Value, n *Node) error {
	all := reflect.MakeMap(v.Type())
	for _, m := range n.Members {
		e := reflect.New(v.Type().Elem()).Elem()
		if err := set(e, m.Value); err != nil {
			return err
		}
		all.SetMapIndex(reflect.ValueOf(m.Key), e)
	}
	v.Set(all)
	return nil
}
