package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

// The file with its anchors, defaults, schema and the references between its parts.
func compose(path string) ([]string, error) {
	options, err := cli.NewProjectOptions([]string{path}, cli.WithOsEnv, cli.WithConsistency(true))
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	names := project.ServiceNames()
	sort.Strings(names)
	return []string{fmt.Sprintf("project %s: %d services (%s), %d volumes, %d networks",
		project.Name, len(names), strings.Join(names, ", "), len(project.Volumes), len(project.Networks))}, nil
}
