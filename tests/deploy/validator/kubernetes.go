package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const namespace = "default"

// What the API server asks of a new object, by its kind.
var strategies = map[string]rest.RESTCreateStrategy{
	"ConfigMap":           configmap.Strategy,
	"NetworkPolicy":       networkpolicy.Strategy,
	"PodDisruptionBudget": poddisruptionbudget.Strategy,
	"Service":             service.Strategy,
	"StatefulSet":         statefulset.Strategy,
}

// Every document of the file, as if it were created in an empty namespace.
func manifests(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(file))
	var good []string
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			if len(good) == 0 {
				return nil, errors.New("no document in it")
			}
			return good, nil
		}
		if err != nil {
			return good, err
		}
		line, err := create(document)
		if err != nil {
			return good, err
		}
		good = append(good, line)
	}
}

func create(document []byte) (string, error) {
	// Strict, as `kubectl apply --validate=strict` asks for: no field that does not exist, none twice.
	codecs := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	versioned, kind, err := codecs.UniversalDeserializer().Decode(document, nil, nil)
	if err != nil {
		return "", err
	}
	strategy, known := strategies[kind.Kind]
	if !known {
		return "", fmt.Errorf("no check for the kind %s", kind)
	}
	restricted, err := podSecurity(versioned)
	if err != nil {
		return "", err
	}
	legacyscheme.Scheme.Default(versioned)
	internal, err := legacyscheme.Scheme.ConvertToVersion(
		versioned, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return "", err
	}
	return admit(strategy, kind, internal, restricted)
}

func admit(
	strategy rest.RESTCreateStrategy, kind *schema.GroupVersionKind, object runtime.Object, note string,
) (string, error) {
	if found, is := object.(*core.Service); is && found.Spec.ClusterIP != "" {
		found.Spec.ClusterIPs = []string{found.Spec.ClusterIP} // As its storage does before it asks.
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", err
	}
	rest.FillObjectMetaSystemFields(accessor)
	ctx := genericapirequest.WithNamespace(context.Background(), namespace)
	name := fmt.Sprintf("%s %s", kind.Kind, accessor.GetName())
	if err := rest.BeforeCreate(strategy, ctx, object); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if warnings := strategy.WarningsOnCreate(ctx, object); len(warnings) > 0 {
		return "", fmt.Errorf("%s: warnings: %s", name, strings.Join(warnings, "; "))
	}
	return fmt.Sprintf("%s (%s)%s", name, kind.GroupVersion(), note), nil
}

// Pods must be such that a namespace with the strictest standard takes them.
func podSecurity(object runtime.Object) (string, error) {
	set, is := object.(*appsv1.StatefulSet)
	if !is {
		return "", nil
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		return "", err
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	meta := metav1.ObjectMeta(set.Spec.Template.ObjectMeta)
	for _, result := range evaluator.EvaluatePod(level, &meta, &set.Spec.Template.Spec) {
		if !result.Allowed {
			return "", fmt.Errorf("StatefulSet %s: pod security %s: %s (%s)",
				set.Name, level.Level, result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	return fmt.Sprintf(", pods of the standard %q", level.Level), nil
}
