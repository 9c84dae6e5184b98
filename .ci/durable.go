// Command durable is the linter rule that the journal alone makes its tokens
// (DESIGN.md §3.6): outside state/history no literal, new or variable of
// history.Durable or history.NotDurable. It prints the places and exits 1 when
// there are any.
//
//	go run .ci/durable.go [DIRECTORY]
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const journal = "github.com/bmcstate/bmcstate/state/history"

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "build" || d.Name() == ".git" || strings.HasSuffix(filepath.ToSlash(path), "state/history")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		places, err := check(path)
		found = append(found, places...)
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, place := range found {
		fmt.Println(place)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// check returns the places in one file that make a token.
func check(path string) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return nil, err
	}
	var name string // of the journal's package in this file
	for _, spec := range file.Imports {
		if strings.Trim(spec.Path.Value, `"`) != journal {
			continue
		}
		if name = "history"; spec.Name != nil {
			name = spec.Name.Name
		}
	}
	if name == "" {
		return nil, nil
	}
	var places []string
	report := func(n ast.Node, what string) {
		places = append(places, fmt.Sprintf("%s: %s: only the journal makes a token; take it from a Commit or from Log.NotDurable",
			files.Position(n.Pos()), what))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if isToken(n.Type, name) {
				report(n, "literal")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && len(n.Args) == 1 && isToken(n.Args[0], name) {
				report(n, "new")
			}
		case *ast.ValueSpec:
			if isToken(n.Type, name) {
				report(n, "variable")
			}
		}
		return true
	})
	return places, nil
}

// isToken reports whether the type is a token's. With a dot import the package
// has no name.
func isToken(e ast.Expr, pkg string) bool {
	var name *ast.Ident
	switch t := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := t.X.(*ast.Ident); !ok || x.Name != pkg {
			return false
		}
		name = t.Sel
	case *ast.Ident:
		if pkg != "." {
			return false
		}
		name = t
	default:
		return false
	}
	return name.Name == "Durable" || name.Name == "NotDurable"
}
